package main

import (
	"strings"
	"unicode"
)

// lineJoint is a line break of the source that does not end a word: it is between two string
// literals that a program joins.
const lineJoint = '\u2060'

// A word is part of a text, in lower case.
type word struct {
	text    string
	line    int  // from 0
	follows bool // nothing but space is between it and the word before
}

// splitWords splits a text into words of letters, digits and apostrophes.
func splitWords(text string) []word {
	var all []word
	var letters strings.Builder
	line, follows := 0, false
	end := func() {
		if letters.Len() > 0 {
			all = append(all, word{letters.String(), line, follows})
			letters.Reset()
			follows = true
		}
	}
	for _, r := range text {
		switch {
		case r == lineJoint:
			line++
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '_':
			letters.WriteRune(unicode.ToLower(r))
		case unicode.IsSpace(r):
			end()
			if r == '\n' {
				line++
			}
		default:
			end()
			follows = false
		}
	}
	end()
	return all
}

// camelWords splits an identifier into its words, in lower case: "newHTTPServer" is "new",
// "http" and "server".
func camelWords(name string) []string {
	letters := []rune(name)
	var words []string
	start := 0
	for i := 1; i <= len(letters); i++ {
		if i < len(letters) && !startsWord(letters, i) {
			continue
		}
		if word := strings.Trim(string(letters[start:i]), "_"); word != "" {
			words = append(words, strings.ToLower(word))
		}
		start = i
	}
	return words
}

// startsWord reports whether a word of an identifier starts at letter i, which is not the first.
func startsWord(letters []rune, i int) bool {
	switch before := letters[i-1]; {
	case letters[i] == '_' || before == '_':
		return true
	case !unicode.IsUpper(letters[i]):
		return false
	case !unicode.IsUpper(before):
		return true
	}
	return i+1 < len(letters) && unicode.IsLower(letters[i+1])
}
