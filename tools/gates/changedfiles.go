package main

import (
	"path"
	"slices"
	"strings"
)

// changedFiles are the files that a commit changes, with the letter that git has for the change:
// A is a new file. A moved file is a new and a deleted one.
type changedFiles map[string]string

// files returns the changed files of an edit with one parent.
func (e edit) files(root string) (changedFiles, error) {
	revisions := []string{"HEAD"}
	if e.commit != "" {
		revisions = []string{e.commit + "^", e.commit}
	}
	diff, err := git(root, slices.Concat([]string{"diff", "--no-renames", "--name-status"}, revisions, []string{"--"})...)
	if err != nil {
		return nil, err
	}
	files := changedFiles{}
	for line := range strings.Lines(diff) {
		if letter, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t"); ok {
			files[name] = letter
		}
	}
	if e.commit != "" {
		return files, nil
	}
	untracked, err := git(root, "ls-files", "--others", "--exclude-standard")
	for line := range strings.Lines(untracked) {
		files[strings.TrimRight(line, "\n")] = "A"
	}
	return files, err
}

// addTo reports whether a commit adds a file to the subject of a row.
func (c changedFiles) addTo(k key) bool {
	for name, letter := range c {
		if letter == "A" && k.contains(name) {
			return true
		}
	}
	return false
}

// recount reports whether a commit makes a gate count more, and leaves the subject of a row
// unchanged: only the gate can have raised its figure.
func (c changedFiles) recount(k key) bool {
	isRecounted := false
	for name := range c {
		if k.contains(name) {
			return false
		}
		isRecounted = isRecounted || name == wordsFile && k.gate == wordsGate || isGateSource(name)
	}
	return isRecounted
}

// isGateSource reports whether a file is part of the program that computes the figures.
func isGateSource(name string) bool {
	dir := path.Dir(name)
	return (dir == "tools/gates" || dir == "tools/internal/shape") && path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
}

// contains reports whether a file counts for the subject of a row.
func (k key) contains(name string) bool {
	folder := k.subject
	if k.gate == methodsGate {
		folder = folder[:max(0, strings.LastIndex(folder, "."))]
	}
	extension := path.Ext(name)
	return name == k.subject || path.Dir(name) == folder && (extension == ".go" || extension == ".md")
}
