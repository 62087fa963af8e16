package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const wordsFile = "tools/gates/words.txt"

// A wordList holds what the words gate refuses.
type wordList struct {
	phrases     phrases           // in prose; terms are part of them
	identifiers map[string]string // replacement by refused name, whose first letter is small
	terms       map[string]string // replacement by refused word of a name, in small letters
}

func readWordList(root string) (*wordList, error) {
	data, err := os.ReadFile(filepath.Join(root, wordsFile))
	if err != nil {
		return nil, err
	}
	return parseWordList(data)
}

// parseWordList reads rows of kind, pattern and what to write instead, separated by tabs.
func parseWordList(data []byte) (*wordList, error) {
	list := &wordList{phrases: phrases{}, identifiers: map[string]string{}, terms: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := list.add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", wordsFile, n, err)
		}
	}
	return list, lines.Err()
}

func (l *wordList) add(line string) error {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
	if len(fields) != 3 {
		return fmt.Errorf("row %q: want kind, pattern and what to write instead, separated by tabs", line)
	}
	kind, pattern, instead := fields[0], fields[1], fields[2]
	switch kind {
	case "phrase":
		return l.phrases.add(pattern, instead)
	case "identifier":
		return addNames(l.identifiers, pattern, instead)
	case "term":
		if err := addNames(l.terms, pattern, instead); err != nil {
			return err
		}
		return l.phrases.add(pattern, instead)
	}
	return fmt.Errorf("row %q: kind %q is none of phrase, identifier and term", line, kind)
}

// addNames adds the alternatives of a pattern, which are single words.
func addNames(names map[string]string, pattern, instead string) error {
	for name := range strings.SplitSeq(pattern, "|") {
		if words := splitWords(name); len(words) != 1 || words[0].text != strings.ToLower(name) {
			return fmt.Errorf("pattern %q: %q is not one word", pattern, name)
		}
		if _, twice := names[name]; twice {
			return fmt.Errorf("pattern %q: %q has a row already", pattern, name)
		}
		names[name] = instead
	}
	return nil
}

// A phrase is a sequence of words in lower case.
type phrase struct {
	words   []string
	instead string
}

// phrases are refused phrases by their first word, the longest first.
type phrases map[string][]phrase

// add adds a pattern: words separated by spaces, each of which may have alternatives
// separated by bars.
func (p phrases) add(pattern, instead string) error {
	variants := [][]string{nil}
	for word := range strings.FieldsSeq(pattern) {
		var longer [][]string
		for alternative := range strings.SplitSeq(word, "|") {
			if one := splitWords(alternative); len(one) != 1 || one[0].text != alternative {
				return fmt.Errorf("pattern %q: %q is not one word in lower case", pattern, alternative)
			}
			for _, v := range variants {
				longer = append(longer, append(slices.Clone(v), alternative))
			}
		}
		variants = longer
	}
	for _, words := range variants {
		if err := p.addWords(phrase{words, instead}); err != nil {
			return err
		}
	}
	return nil
}

func (p phrases) addWords(added phrase) error {
	same := p[added.words[0]]
	if slices.ContainsFunc(same, func(other phrase) bool { return slices.Equal(other.words, added.words) }) {
		return fmt.Errorf("phrase %q has a row already", strings.Join(added.words, " "))
	}
	same = append(same, added)
	slices.SortStableFunc(same, func(a, b phrase) int { return len(b.words) - len(a.words) })
	p[added.words[0]] = same
	return nil
}

// A match is a refused phrase in a text.
type match struct {
	line          int
	text, instead string
}

// find returns the matches in a text. Matches do not overlap; of several that begin at one
// word, the longest counts.
func (p phrases) find(text []word) []match {
	var found []match
	for i := 0; i < len(text); {
		length := 1
		for _, candidate := range p[text[i].text] {
			if matches(candidate.words, text[i:]) {
				found = append(found, match{text[i].line, strings.Join(candidate.words, " "), candidate.instead})
				length = len(candidate.words)
				break
			}
		}
		i += length
	}
	return found
}

// matches reports whether a text begins with some words, with nothing but space between them.
func matches(words []string, text []word) bool {
	if len(words) > len(text) {
		return false
	}
	for i, word := range words {
		if text[i].text != word || i > 0 && !text[i].follows {
			return false
		}
	}
	return true
}
