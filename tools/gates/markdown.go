package main

import (
	"regexp"
	"strings"
)

// A block is a piece of running text of a document: a heading, a paragraph, an item of a
// list or a cell of a table.
type block struct {
	line    int // of the document, from 1
	text    string
	heading int // its level; 0: no heading
}

// codeWord stands for a span of code, which counts as one word.
const codeWord = "‹code›"

// prose returns the running text of a Markdown document, without blocks of code, comments
// and the targets of links.
func prose(data []byte) []block {
	r := newReader()
	for i, line := range strings.Split(string(data), "\n") {
		r.read(i+1, strings.TrimSpace(line))
	}
	r.end()
	for i := range r.blocks {
		r.blocks[i].text = r.inline(r.blocks[i].text)
	}
	return r.blocks
}

// A reader collects blocks line by line.
type reader struct {
	blocks    []block
	open      bool   // the last block goes on with the next line of text
	fence     string // that ends the block of code; empty: outside of code
	isComment bool   // inside of an HTML comment

	heading, item, rule, definition *regexp.Regexp
	code, link, tag                 *regexp.Regexp
}

func newReader() *reader {
	return &reader{
		heading:    regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*$`),
		item:       regexp.MustCompile(`^(?:[-*+]|\d+[.)])\s+`),
		rule:       regexp.MustCompile(`^[-=*_|:\s]+$`),
		definition: regexp.MustCompile(`^\[[^\]]+\]:\s`),
		code:       regexp.MustCompile("(?s)(``.+?``|`[^`]+`)"),
		link:       regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\]]*\])*)\](?:\([^()\s]*(?:\s+"[^"]*")?\)|\[[^\]]*\])`),
		tag:        regexp.MustCompile(`<[^<>]+>`),
	}
}

func (r *reader) read(line int, text string) {
	switch {
	case r.fence != "":
		if strings.HasPrefix(text, r.fence) {
			r.fence = ""
		}
	case r.isComment || strings.HasPrefix(text, "<!--"):
		r.isComment = !strings.Contains(text, "-->")
		r.end()
	case strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"):
		r.fence = text[:3]
		r.end()
	case r.rule.MatchString(text) || r.definition.MatchString(text) || text == "":
		r.end()
	case r.heading.MatchString(text):
		match := r.heading.FindStringSubmatch(text)
		r.start(block{line, match[2], len(match[1])})
		r.end()
	case strings.HasPrefix(text, "|"):
		for cell := range strings.SplitSeq(strings.Trim(text, "|"), "|") {
			r.start(block{line: line, text: strings.TrimSpace(cell)})
		}
		r.end()
	case r.item.MatchString(text):
		r.start(block{line: line, text: r.item.ReplaceAllString(text, "")})
	case r.open:
		r.blocks[len(r.blocks)-1].text += "\n" + strings.TrimPrefix(text, "> ")
	default:
		r.start(block{line: line, text: strings.TrimPrefix(text, "> ")})
	}
}

func (r *reader) start(b block) {
	r.blocks = append(r.blocks, b)
	r.open = true
}

func (r *reader) end() { r.open = false }

// inline replaces spans of code, links and tags. Lines stay.
func (r *reader) inline(text string) string {
	text = r.code.ReplaceAllStringFunc(text, func(code string) string {
		return codeWord + strings.Repeat("\n", strings.Count(code, "\n"))
	})
	text = r.link.ReplaceAllString(text, "$1")
	return r.tag.ReplaceAllString(text, "")
}
