package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const (
	// causeLines and causeBytes bound what is said of one failure at the end.
	causeLines = 5
	causeBytes = 1000
)

// failure is a test that failed, or a package of which nothing else did.
type failure struct{ pkg, name, cause string }

var (
	// message matches how a message of the test itself begins; testscript says in the
	// middle of its log where it failed.
	message = regexp.MustCompile(`^ {4}\S+\.go:\d+: |^ *FAIL: |^panic: |^fatal error: |^WARNING: DATA RACE|^\S+\.go:\d+(:\d+)?: `)
	// processLog is what test/support/env shows of a process when a test has failed, crashed
	// is a test process that ended by itself, and frame is what the testing package says.
	processLog = regexp.MustCompile(`^ {4}\S+\.go:\d+: --- end of .*'s log:`)
	crashed    = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	frame      = regexp.MustCompile(`^\s*(=== |--- |# )|^\s*$|^goroutine |^created by |^(testing|runtime|panic)\b.*\)$|^\t\S*/src/(testing|runtime)/`)
)

// causeOf picks from the output of a test what the test itself said: the first lines of
// its first and last messages, and more lines when there are few messages. An error can't
// be told from a note; the error at which a test ended is the last. None takes so much that another
// is not seen.
func causeOf(output string) string {
	var messages [][]string
	ours := true // what is read is part of a message that counts
	var rest []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		switch {
		case processLog.MatchString(line):
			ours = false
		case message.MatchString(line):
			ours = true
			messages = append(messages, []string{line})
		case frame.MatchString(line):
		case ours && len(messages) > 0:
			messages[len(messages)-1] = append(messages[len(messages)-1], line)
		case ours:
			rest = append(rest, line)
		}
	}
	if len(messages) == 0 && len(rest) > 0 {
		messages = [][]string{rest}
	}
	if n := len(messages); n > causeLines {
		messages = append(messages[:1], messages[n-causeLines+1:]...)
	}
	left := causeLines - len(messages)
	text := ""
	for _, m := range slices.Backward(messages) {
		n := min(len(m), 1+left)
		left -= n - 1
		text = cut(strings.Join(m[:n], "\n"), causeBytes/len(messages)) + "\n" + text
	}
	return text
}

// cut returns what of a text fits into so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// summary repeats what failed, in a package or if that is empty in all, and why: after each
// package and at the very end, since of a long output often only a part is kept.
func (t *tally) summary(title, pkg string, out io.Writer) error {
	for _, f := range t.failures {
		if pkg != "" && f.pkg != pkg {
			continue
		}
		if title != "" {
			title = "\n" + title + "\n"
		}
		if _, err := fmt.Fprintf(out, "%s%s\n%s", title, f.name, f.cause); err != nil {
			return err
		}
		title = ""
	}
	return nil
}

// noteFailure keeps what is to be said at the end about a test or package that has
// failed. A failure that only follows from that of a part is not worth a line.
func (t *tally) noteFailure(e event) {
	name := strings.TrimSpace(e.Package + " " + e.Test)
	var output, crash string
	for _, key := range t.keysOf(e) {
		if text := t.output[key].String(); crashed.MatchString(text) {
			crash += text // which is the last that a process says
		} else {
			output += text
		}
	}
	cause := causeOf(output + crash)
	parts := slices.ContainsFunc(t.failures, func(f failure) bool {
		return strings.HasPrefix(f.name, name+"/") || strings.HasPrefix(f.name, name+" ")
	})
	if e.Test == "" && !parts && cause == "" {
		cause = causeOf(t.said[cmp.Or(e.FailedBuild, e.Package)])
	}
	if cause != "" || !parts {
		t.failures = append(t.failures, failure{e.Package, name, cause})
	}
}
