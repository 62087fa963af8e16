package readme

import (
	"regexp"
	"strings"
)

// block is a part of a document: prose, or a fenced block.
type block struct {
	// language is the text behind the opening fence; empty for prose.
	language string
	// text are the lines, without fences; of a console, steps has them instead.
	text  []string
	steps []step
}

// step is a command and what it prints.
type step struct {
	command string
	output  []string
}

const fence = "```"

// parse takes a document apart; format puts it together again.
func parse(doc string) []block {
	var all []block
	current := block{}
	for _, line := range lines(doc) {
		language, isFence := strings.CutPrefix(line, fence)
		switch {
		case isFence:
			all = append(all, current)
			current = block{language: language}
		case current.language != "console":
			current.text = append(current.text, line)
		case strings.HasPrefix(line, "$ "):
			current.steps = append(current.steps, step{command: line[len("$ "):]})
		default:
			s := &current.steps[len(current.steps)-1]
			if more, ok := strings.CutPrefix(line, "> "); ok && len(s.output) == 0 {
				s.command += "\n" + more
			} else {
				s.output = append(s.output, line)
			}
		}
	}
	return append(all, current)
}

func format(doc []block) string {
	var b strings.Builder
	for i, current := range doc {
		if i > 0 {
			b.WriteString(fence + current.language + "\n")
		}
		for _, line := range current.text {
			b.WriteString(line + "\n")
		}
		for _, s := range current.steps {
			b.WriteString("$ " + strings.ReplaceAll(s.command, "\n", "\n> ") + "\n")
			for _, line := range s.output {
				b.WriteString(line + "\n")
			}
		}
	}
	return b.String()
}

func lines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

var (
	token    = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{30,}`)
	volatile = []struct {
		what *regexp.Regexp
		as   string
	}{
		{regexp.MustCompile(`eyJ[A-Za-z0-9_.-]+`), "TOKEN"},
		{regexp.MustCompile(`[A-Z2-7]{26}\.\d+`), "PLACE"},
		{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
		{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
		{regexp.MustCompile(`\b\d+\.\d+s\b`), "TIME"},
		{regexp.MustCompile(`\b(\d+[dhms])+\b`), "TIME"},
		{regexp.MustCompile(`[ \t]+`), " "},
		{regexp.MustCompile(`(?m) +$`), ""},
	}
)

// shorten leaves out of output what no reader needs: the middle of tokens, and
// white space at the ends of lines.
func shorten(out string) string {
	out = token.ReplaceAllStringFunc(out, func(t string) string { return t[:20] + "..." })
	return regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(out, "")
}

// normalise replaces the values that differ between runs.
func normalise(out string) string {
	for _, v := range volatile {
		out = v.what.ReplaceAllString(out, v.as)
	}
	return strings.TrimSpace(out)
}
