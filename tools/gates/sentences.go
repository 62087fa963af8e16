package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxWords is how many words a sentence of a document may have.
	maxWords = 30
	// quotedWords is how many words of a sentence a finding has.
	quotedWords = 8
)

// measureSentences counts the sentences above maxWords in each document.
func measureSentences(t *tree) (result, error) {
	pages, err := t.markdown()
	if err != nil {
		return result{}, err
	}
	var subjects []subject
	for _, p := range pages {
		found := longSentences(p)
		subjects = append(subjects, subject{name: p.path, figure: len(found), findings: found})
	}
	return result{subjects: sorted(subjects)}, nil
}

// longSentences returns a finding for each sentence above maxWords, the longest first.
func longSentences(p page) []finding {
	var long []sentence
	for _, b := range prose(p.data) {
		for _, s := range sentences(b) {
			if len(s.words) > maxWords {
				long = append(long, s)
			}
		}
	}
	slices.SortStableFunc(long, func(a, b sentence) int { return cmp.Compare(len(b.words), len(a.words)) })
	var found []finding
	for _, s := range long {
		text := fmt.Sprintf("%d words: %s …", len(s.words), strings.Join(s.words[:quotedWords], " "))
		found = append(found, finding{p.path, s.line, text})
	}
	return found
}

type sentence struct {
	line  int
	words []string
}

// sentences splits a block. A sentence ends with a period, a question mark or an exclamation
// mark, unless the next word begins with a small letter.
func sentences(b block) []sentence {
	var all []sentence
	var open sentence
	for i, line := range strings.Split(b.text, "\n") {
		for word := range strings.FieldsSeq(line) {
			if last := len(open.words) - 1; last >= 0 && endsSentence(open.words[last]) && !startsSmall(word) {
				all = append(all, open)
				open = sentence{}
			}
			if !strings.ContainsFunc(word, isLetterOrDigit) {
				continue
			}
			if open.words == nil {
				open.line = b.line + i
			}
			open.words = append(open.words, word)
		}
	}
	if open.words != nil {
		all = append(all, open)
	}
	return all
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func endsSentence(word string) bool {
	switch strings.ToLower(strings.TrimLeft(word, "([\"“*_")) {
	case "e.g.", "i.e.", "cf.", "vs.":
		return false
	}
	bare := strings.TrimRight(word, ")]\"”’'*_")
	return strings.HasSuffix(bare, ".") || strings.HasSuffix(bare, "?") || strings.HasSuffix(bare, "!")
}

func startsSmall(word string) bool {
	i := strings.IndexFunc(word, isLetterOrDigit)
	return i == 0 && unicode.IsLower([]rune(word)[0])
}
