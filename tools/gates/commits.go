package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxCommitTitle is in characters.
	maxCommitTitle = 72
	// firstFile is in the first commit whose title must have the form.
	firstFile = "tools/gates/main.go"
	// hashLength is how much of a commit's hash is printed.
	hashLength = 12
)

// measureCommits checks the titles of the commit that added firstFile and of all later commits,
// apart from merges.
func measureCommits(t *tree) (result, error) {
	return sinceCommit(t, firstFile, func(first string) (result, error) {
		log, err := git(t.root, "log", "--no-merges", "--format=%H %s", first+"..HEAD")
		if err != nil {
			return result{}, fmt.Errorf("list the commits since %s: %w", first, err)
		}
		own, err := git(t.root, "log", "-1", "--no-merges", "--format=%H %s", first)
		if err != nil {
			return result{}, fmt.Errorf("read commit %s: %w", first, err)
		}
		return result{subjects: checkTitles(log + "\n" + own)}, nil
	})
}

// checkTitles returns a subject for each line of hash and title.
func checkTitles(log string) []subject {
	var commits []subject
	for line := range strings.Lines(log) {
		hash, title, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		s := subject{name: hash[:min(hashLength, len(hash))]}
		if reason := titleReason(title); reason != "" {
			s.figure = 1
			s.findings = []finding{{text: fmt.Sprintf("%q %s", title, reason)}}
		}
		commits = append(commits, s)
	}
	return commits
}

// titleReason returns the fault of the title of a commit, or nothing. It refuses first words
// that cannot be imperatives: forms in -ed and -ing (except a few verbs such as feed), the third
// person of frequent verbs, articles and question words.
func titleReason(title string) string {
	for _, verb := range []string{"revert", "reapply"} { // in the titles that git revert writes
		if _, ok := strings.CutPrefix(strings.ToLower(title), verb+` "`); ok {
			return fmt.Sprintf(`is as git revert writes it; write "area: %s ..." with the subject of the other commit`, verb)
		}
	}
	if n := utf8.RuneCountInString(title); n > maxCommitTitle {
		return fmt.Sprintf("has %d characters, more than %d", n, maxCommitTitle)
	}
	match := regexp.MustCompile(`^[a-z0-9.,/_ -]+: (\S+)`).FindStringSubmatch(title)
	if match == nil {
		return `has not the form "area: imperative", with the area in small letters`
	}
	if word := strings.ToLower(strings.TrimRight(match[1], ",:;")); !maybeImperative(word) {
		return fmt.Sprintf("has %q after the area, which is no imperative", match[1])
	}
	return ""
}

func maybeImperative(word string) bool {
	switch word {
	case "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "bring", "ping", "string", "swing":
		return true
	case "a", "an", "the", "it", "its", "this", "that", "these", "there", "what", "who", "which", "how", "why", "when", "where",
		"all", "each", "every", "no", "some", "one", "two", "more", "new",
		"docs", "tests", "typo", "wip",
		"adds", "allows", "changes", "checks", "does", "drops", "fixes", "has", "is", "keeps", "makes", "moves", "removes",
		"renames", "returns", "says", "splits", "updates", "uses":
		return false
	}
	return !strings.HasSuffix(word, "ed") && !strings.HasSuffix(word, "ing")
}
