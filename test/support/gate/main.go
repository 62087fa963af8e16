// Command gate reads `go test -json` and prints the output of `go test`: a line for each package, and the
// output of failed tests. At its end it prints a summary of failures and the duration. It fails if a test
// failed, if one was skipped, because every test is required, and if none ran. Its argument is the name
// of the run.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	begin, t := time.Now(), newResults()
	err := t.run(os.Stdin, os.Stdout)
	fmt.Printf("--- %s: %d passed, %d failed, %s\n", strings.Join(os.Args[1:], " "), t.passed, t.failed, time.Since(begin).Round(time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build output
	FailedBuild                   string // of a package that failed
}

// results are the results so far.
type results struct {
	passed, failed int
	skipped        []string
	failures       []failure
	// output has the output of each running test, and packageOutput that of the compiler, or outside of
	// tests, for each package.
	output        map[string]*strings.Builder
	packageOutput map[string]string
}

func newResults() *results {
	return &results{output: map[string]*strings.Builder{}, packageOutput: map[string]string{}}
}

// run reads the events of in, and prints to out.
func (t *results) run(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := t.line(line, out); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	if err := t.summary("In short:", "", out); err != nil {
		return err
	}
	return t.err()
}

func (t *results) line(line string, out io.Writer) error {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		_, err := io.WriteString(out, line) // the go command itself
		return err
	}
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if e.Output == "PASS\n" || e.Output == "FAIL\n" || strings.Contains(e.Output, "[no test files]") {
			return nil
		}
		if !strings.HasPrefix(e.Output, "FAIL\t") {
			t.packageOutput[e.Package+e.ImportPath] += e.Output // an event has one of them
		}
		_, err := io.WriteString(out, e.Output)
		return err
	case e.Action == "output":
		if t.output[key] == nil {
			t.output[key] = new(strings.Builder)
		}
		t.output[key].WriteString(e.Output)
	case e.Action == "pass" && e.Test != "":
		t.passed++
		delete(t.output, key)
	case e.Action == "skip" && e.Test != "":
		t.skipped = append(t.skipped, key)
		delete(t.output, key)
	case e.Action == "fail":
		t.failed++
		t.recordFailure(e)
		if err := t.show(e, out); err != nil || e.Test != "" {
			return err
		}
		return t.summary("Of "+e.Package+":", e.Package, out)
	}
	return nil
}

// keysOf returns the keys of the output of a test, or, for a package, of its tests that did not end.
func (t *results) keysOf(e event) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(t.output)) {
		if k == e.Package+" "+e.Test || e.Test == "" && strings.HasPrefix(k, e.Package+" ") {
			keys = append(keys, k)
		}
	}
	return keys
}

// show prints the output of a test, or of the tests of a package that did not end.
func (t *results) show(e event, out io.Writer) error {
	for _, k := range t.keysOf(e) {
		if _, err := io.WriteString(out, t.output[k].String()); err != nil {
			return err
		}
		delete(t.output, k)
	}
	return nil
}

// err returns an error unless all tests ran and passed.
func (t *results) err() error {
	switch {
	case t.failed > 0:
		return errors.New("tests failed")
	case len(t.skipped) > 0:
		return fmt.Errorf("required tests were skipped: %s", strings.Join(t.skipped, ", "))
	case t.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
