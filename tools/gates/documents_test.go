package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // line:text
	}{
		"paragraphs":   {"One\ntwo.\n\nThree.", []string{"1:One\ntwo.", "4:Three."}},
		"heading":      {"## One two ##\ntext", []string{"1:One two", "2:text"}},
		"underlined":   {"Title\n=====\ntext", []string{"1:Title", "3:text"}},
		"list":         {"- one\n  more\n- two\n1. three", []string{"1:one\nmore", "3:two", "4:three"}},
		"table":        {"| a | b |\n|---|:--|\n| c | d e |", []string{"1:a", "1:b", "3:c", "3:d e"}},
		"fence":        {"one\n```sh\ntwo\n\n```\nthree", []string{"1:one", "6:three"}},
		"tildes":       {"~~~\none\n```\n~~~\ntwo", []string{"5:two"}},
		"comment":      {"<!-- one\ntwo -->\nthree", []string{"3:three"}},
		"quote":        {"> one\n> two", []string{"1:one\ntwo"}},
		"code":         {"a `b c d` e ``f ` g``", []string{"1:a ‹code› e ‹code›"}},
		"code on two":  {"a `b\nc` d", []string{"1:a ‹code›\n d"}},
		"links":        {"a [b c](http://d/e) [f][g] ![h](i.svg)", []string{"1:a b c f h"}},
		"definition":   {"[g]: http://h\ntext", []string{"2:text"}},
		"tags":         {"<b>one</b> two", []string{"1:one two"}},
		"empty":        {"", nil},
		"windows line": {"one\r\ntwo\r\n", []string{"1:one\ntwo"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, b := range prose([]byte(test.text)) {
				got = append(got, fmt.Sprintf("%d:%s", b.line, b.text))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"One two. Three!\nFour? Five":       {"1:One two.", "1:Three!", "2:Four?", "2:Five"},
		"See e.g. Helm (v3.5 too). `x` is.": {"1:See e.g. Helm (v3.5 too).", "1:`x` is."},
		"It has 3. and more.":               {"1:It has 3. and more."},
		"**Bold.** Then \"quoted.\" End":    {"1:**Bold.**", "1:Then \"quoted.\"", "1:End"},
		"a — b | c":                         {"1:a b c"},
	} {
		var got []string
		for _, s := range sentences(block{line: 1, text: text}) {
			got = append(got, fmt.Sprintf("%d:%s", s.line, strings.Join(s.words, " ")))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLongSentences(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) + ". " }
	text := words(30) + "\n\n" + words(31) + "\n\n| " + words(20) + "| " + words(20) + "|\n\n- " + words(40)
	got := texts(longSentences(page{"a.md", []byte(text)}))
	if len(got) != 2 || !strings.HasPrefix(got[0], "a.md:7: 40 words: word") || !strings.HasPrefix(got[1], "a.md:3: 31 words: word") {
		t.Errorf("found %q", got)
	}
}

func TestTableRows(t *testing.T) {
	for text, want := range map[string]int{
		"":                             0,
		"text\n":                       0,
		"| a |\n|---|\n":               0,
		"| a |\n|---|\n| b |\n| c |\n": 2,
		"| a |\n|:-:|\n| b |\n\n| a |\n|---|\n| c |": 2,
	} {
		if got := tableRows(text); got != want {
			t.Errorf("%q: %d rows, want %d", text, got, want)
		}
	}
}

func TestTitles(t *testing.T) {
	for title, want := range map[string]string{
		"Shard fencing":                       "",
		"Watches and lists":                   "",
		"Placements: matching and scheduling": "",
		"Profiles of the hub and agent":       "",
		"":                                    "is missing",
		"The log of the hub and its copies":   "has 8 words, more than 6",
		"A rule is data":                      `has the verb "is"`,
		"How watches end":                     `begins with "how"`,
		"Agents can't wait":                   `has the verb "can't"`,
	} {
		if got := clauseReason(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}
