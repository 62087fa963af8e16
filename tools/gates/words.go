package main

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// measureWords counts refused words: in comments and declared names of all Go files, in
// messages of those that are no tests, and in documents. Subjects are the directories of Go
// files, and the documents.
func measureWords(t *tree) (result, error) {
	list, err := readWordList(t.root)
	if err != nil {
		return result{}, err
	}
	sources, err := t.sources()
	if err != nil {
		return result{}, err
	}
	pages, err := t.markdown()
	if err != nil {
		return result{}, err
	}
	findings := map[string][]finding{}
	for _, s := range sources {
		dir := path.Dir(s.path)
		findings[dir] = append(findings[dir], list.inSource(s)...)
	}
	for _, p := range pages {
		findings[p.path] = list.inPage(p)
	}
	var subjects []subject
	for name, found := range findings {
		subjects = append(subjects, subject{name: name, figure: len(found), findings: found})
	}
	return result{subjects: sorted(subjects)}, nil
}

// inPage returns the findings in the prose of a document. Code has names that may not change.
func (l *wordList) inPage(p page) []finding {
	var found []finding
	for _, b := range prose(p.data) {
		found = append(found, l.inText(p.path, b.line, b.text)...)
	}
	return found
}

// inText returns the findings in a text that starts at a line of a file.
func (l *wordList) inText(file string, line int, text string) []finding {
	var found []finding
	for _, m := range l.phrases.find(splitWords(text)) {
		found = append(found, finding{file, line + m.line, fmt.Sprintf("%q; instead: %s", m.text, m.instead)})
	}
	return found
}

// inSource returns the findings in a Go file.
func (l *wordList) inSource(s source) []finding {
	var found []finding
	for _, group := range s.syntax.Comments {
		found = append(found, l.inText(s.path, s.line(group.Pos()), commentText(group))...)
	}
	for _, name := range declaredNames(s.syntax) {
		if text := l.inName(name.Name); text != "" {
			found = append(found, finding{s.path, s.line(name.Pos()), text})
		}
	}
	if !s.isTest() {
		for _, m := range messages(s) {
			found = append(found, l.inText(s.path, m.line, m.text)...)
		}
	}
	return found
}

// inName returns what is wrong with a declared name; empty if nothing is. A number at the end does
// not make a refused name another one.
func (l *wordList) inName(name string) string {
	if instead, ok := l.identifiers[lowerFirst(withoutNumber(name))]; ok {
		return fmt.Sprintf("name %s; instead: %s", name, instead)
	}
	for _, word := range camelWords(name) {
		word = withoutNumber(word)
		if instead, ok := l.terms[word]; ok {
			return fmt.Sprintf("%q in name %s; instead: %s", word, name, instead)
		}
	}
	return ""
}

func withoutNumber(name string) string { return strings.Trim(name, "0123456789_") }

func lowerFirst(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(first)) + name[size:]
}

// commentText returns the text of a comment with a line for each of the source's. In that,
// it differs from ast.CommentGroup.Text.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		if text, ok := strings.CutPrefix(c.Text, "//"); ok {
			lines = append(lines, text)
			continue
		}
		lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/"))
	}
	return strings.Join(lines, "\n")
}
