// Package readme runs the commands of README.md, of the tutorial and of docs/exports.md, and
// compares their output with these pages. With -update it writes the output into them.
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

var update = flag.Bool("update", false, "write the output of the commands into the page of each test that runs")

const (
	readmePage   = "../../../README.md"
	tutorialPage = "../../../docs/tutorial.md"
	exportsPage  = "../../../docs/exports.md"
	// waitTimeout is how long a command may take to print the expected output, since the
	// state changes in the background.
	waitTimeout = env.Soon
	// quiet is how long output has to stay the same to be written.
	quiet = 3 * time.Second
	// waitLine is the line that a demo prints before it waits, and resultLine begins the
	// line above it.
	waitLine   = "Everything keeps running until Ctrl-C."
	resultLine = "✓ all"
)

func TestTour(t *testing.T) { takeTour(t, readmePage) }

func TestTourOfTutorial(t *testing.T) { takeTour(t, tutorialPage) }

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

// run runs a step, and repeats a query until it prints the expected output.
func (r *tour) run(s *step) {
	r.t.Helper()
	command := r.shell.withTestAddress(s.command)
	if strings.HasPrefix(command, "orrery demo") {
		r.startDemo(command)
		return
	}
	deadline := time.Now().Add(waitTimeout)
	if *update {
		deadline = time.Now().Add(quiet)
	}
	isQuery := query.MatchString(command)
	for {
		out := r.shell.run(command)
		if background(command) { // it prints when it is ready
			out = r.shell.readLine(waitTimeout)
		}
		switch late := time.Now().After(deadline); {
		case *update && (late || !isQuery):
			s.output = lines(r.shell.withPageAddress(shorten(out)))
			return
		case !*update && normalise(out) == normalise(strings.Join(s.output, "\n")):
			return
		case !*update && (late || !isQuery):
			r.t.Fatalf("$ %s\nprinted\n%s\n%s says\n%s", s.command, out, r.page, strings.Join(s.output, "\n"))
		}
		<-time.After(100 * time.Millisecond)
	}
}

// query matches commands that may be run twice.
var query = regexp.MustCompile(`^(orrery (--\S+ \S+ )*(status|why|location list)|kubectl (--\S+ \S+ )*get)\b`)

func background(command string) bool { return strings.HasSuffix(command, "&") }

func (r *tour) startDemo(command string) {
	r.t.Helper()
	r.demo = filepath.Join(r.shell.dir, "demo.out")
	r.shell.run(command + " > demo.out 2>&1 &")
	env.Eventually(r.t, waitTimeout, func() error {
		out, err := os.ReadFile(r.demo)
		if err == nil && !strings.Contains(string(out), waitLine) {
			err = fmt.Errorf("the demo has not finished its steps:\n%s", out)
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
		isShort := len(b.text) > 0 && strings.HasPrefix(b.text[0], resultLine)
		b.text = lines(excerpt(shorten(string(out)), isShort))
		return
	}
	printed := normalise(string(out))
	for text := range strings.SplitSeq(strings.Join(b.text, "\n"), "\n[...]\n") {
		if want := normalise(text); !strings.Contains(printed, want) {
			r.t.Errorf("the demo does not print\n%s\nbut\n%s", want, printed)
		}
	}
}

// excerpt returns the result of a demo, behind one of its steps unless it is to be short.
func excerpt(out string, isShort bool) string {
	result := strings.TrimSpace(out[strings.LastIndex(out, resultLine):strings.Index(out, waitLine)])
	if isShort {
		return result
	}
	begin, end := strings.Index(out, "3. Place"), strings.Index(out, "4. Edit")
	return strings.TrimSpace(out[begin:end]) + "\n[...]\n" + result
}
