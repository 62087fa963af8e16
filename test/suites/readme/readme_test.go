// Package readme runs the commands of README.md, and of pages that are told like it, and
// compares what they print with what is said there. With -update it writes what they print
// into them.
package readme

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

var update = flag.Bool("update", false, "write what the commands print into README.md, or the page that -run names")

const (
	file = "../../../README.md"
	// exportsPage is one story from beginning to end, too.
	exportsPage = "../../../docs/exports.md"
	// patience is how long a command may take to print what is expected: what it
	// looks at changes in the background.
	patience = env.Soon
	// quiet is how long output has to stay the same to be written.
	quiet = 3 * time.Second
	// toldLine is the last thing that a demo prints before it waits.
	toldLine = "Everything keeps running until Ctrl-C."
)

func TestTour(t *testing.T) { takeTour(t, file) }

func TestTourOfExports(t *testing.T) { takeTour(t, exportsPage) }

// takeTour runs a page from beginning to end.
func takeTour(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tour := &tour{t: t, page: filepath.Base(page), shell: startShell(t)}
	doc := parse(string(text))
	for i := range doc {
		switch doc[i].language {
		case "console":
			for j := range doc[i].steps {
				tour.run(&doc[i].steps[j])
			}
		case "text demo":
			tour.compareDemo(&doc[i])
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(format(doc)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tour runs steps one after the other.
type tour struct {
	t     *testing.T
	page  string
	shell *shell
	// demo is the file with what the demo prints.
	demo string
}

// run runs a step, again and again if it only looks, until it prints what is expected.
func (r *tour) run(s *step) {
	r.t.Helper()
	command := r.shell.at(s.command)
	if strings.HasPrefix(command, "orrery demo") {
		r.startDemo(command)
		return
	}
	deadline := time.Now().Add(patience)
	if *update {
		deadline = time.Now().Add(quiet)
	}
	looks := onlyLooks.MatchString(command)
	for {
		out := r.shell.run(command)
		if background(command) { // it prints when it is ready
			out = r.shell.readLine(patience)
		}
		switch late := time.Now().After(deadline); {
		case *update && (late || !looks):
			s.output = lines(r.shell.from(shorten(out)))
			return
		case !*update && normalise(out) == normalise(strings.Join(s.output, "\n")):
			return
		case !*update && (late || !looks):
			r.t.Fatalf("$ %s\nprinted\n%s\n%s says\n%s", s.command, out, r.page, strings.Join(s.output, "\n"))
		}
		<-time.After(100 * time.Millisecond)
	}
}

// onlyLooks matches commands that may be run twice.
var onlyLooks = regexp.MustCompile(`^(orrery (--\S+ \S+ )*(status|why|location list)|kubectl (--\S+ \S+ )*get)\b`)

func background(command string) bool { return strings.HasSuffix(command, "&") }

func (r *tour) startDemo(command string) {
	r.t.Helper()
	r.demo = filepath.Join(r.shell.dir, "demo.out")
	r.shell.run(command + " > demo.out 2>&1 &")
	env.Eventually(r.t, patience, func() error {
		out, err := os.ReadFile(r.demo)
		if err == nil && !strings.Contains(string(out), toldLine) {
			err = fmt.Errorf("the demo has not told its story yet\n%s", out)
		}
		return err
	})
}

// compareDemo compares an excerpt with what the demo printed.
func (r *tour) compareDemo(b *block) {
	r.t.Helper()
	out, err := os.ReadFile(r.demo)
	if err != nil {
		r.t.Fatal(err)
	}
	if *update {
		b.text = lines(excerpt(shorten(string(out))))
		return
	}
	printed := normalise(string(out))
	for part := range strings.SplitSeq(strings.Join(b.text, "\n"), "\n[...]\n") {
		if want := normalise(part); !strings.Contains(printed, want) {
			r.t.Errorf("the demo does not print\n%s\nbut\n%s", want, printed)
		}
	}
}

// excerpt is the part of the story that README.md shows.
func excerpt(out string) string {
	begin, end := strings.Index(out, "3. Place"), strings.Index(out, "4. Edit")
	return strings.TrimSpace(out[begin:end]) + "\n[...]\n" + strings.TrimSpace(out[strings.LastIndex(out, "✓ all"):strings.Index(out, toldLine)])
}
