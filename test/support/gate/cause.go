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
	// causeLines and causeBytes are the maximum numbers of lines and bytes of one failure in the
	// summary.
	causeLines = 5
	causeBytes = 1000
)

// failure is a failed test, or a failed package without a failed test.
type failure struct{ pkg, name, cause string }

var (
	// message matches the beginning of a message of the test itself, or of testscript, which prints
	// its failure in the middle of its log.
	message = regexp.MustCompile(`^ {4}\S+\.go:\d+: |^ *FAIL: |^panic: |^fatal error: |^WARNING: DATA RACE|^\S+\.go:\d+(:\d+)?: `)
	// processLog matches the beginning of the log of a process, which test/support/env prints when a
	// test has failed. crashed matches the output of a crash of the test process. frame matches lines
	// of the testing package and of stack traces.
	processLog = regexp.MustCompile(`^ {4}\S+\.go:\d+: --- end of .*'s log:`)
	crashed    = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	frame      = regexp.MustCompile(`^\s*(=== |--- |# )|^\s*$|^goroutine |^created by |^(testing|runtime|panic)\b.*\)$|^\t\S*/src/(testing|runtime)/`)
)

// causeOf returns the messages of the test itself from its output: the first lines of its first and last
// messages, and more lines if there are few messages. Errors and logs look the same, but the error at
// which a test ended is the last message. The length of each message is limited so that all are visible.
func causeOf(output string) string {
	var messages [][]string
	ours := true // the line belongs to a message of the test
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

// cut returns at most the first bytes of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// summary prints the failures of a package, or of all if pkg is empty, with their causes. It is printed
// after each package and at the end, because often only a part of a long output is kept.
func (t *results) summary(title, pkg string, out io.Writer) error {
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

// recordFailure records a failed test or package for the summary, unless it has no message of its own and
// failed only because of a subtest or test.
func (t *results) recordFailure(e event) {
	name := strings.TrimSpace(e.Package + " " + e.Test)
	var output, crash string
	for _, key := range t.keysOf(e) {
		if text := t.output[key].String(); crashed.MatchString(text) {
			crash += text // the last output of a process
		} else {
			output += text
		}
	}
	cause := causeOf(output + crash)
	hasFailedChild := slices.ContainsFunc(t.failures, func(f failure) bool {
		return strings.HasPrefix(f.name, name+"/") || strings.HasPrefix(f.name, name+" ")
	})
	if e.Test == "" && !hasFailedChild && cause == "" {
		cause = causeOf(t.packageOutput[cmp.Or(e.FailedBuild, e.Package)])
	}
	if cause != "" || !hasFailedChild {
		t.failures = append(t.failures, failure{e.Package, name, cause})
	}
}
