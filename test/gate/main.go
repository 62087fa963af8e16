// Command gate reads `go test -json` and prints what `go test` would have: a line
// for each package, and the output of tests that failed. It fails when a test
// failed, when one was skipped, since every test is required, and when none ran.
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
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build output
}

// tally is what has been seen so far.
type tally struct {
	passed, failed int
	skipped        []string
	// output is what each test that still runs has printed.
	output map[string]*strings.Builder
}

func run(in io.Reader, out io.Writer) error {
	t := tally{output: map[string]*strings.Builder{}}
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
	return t.verdict()
}

func (t *tally) line(line string, out io.Writer) error {
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
		return t.show(key, out)
	}
	return nil
}

// show prints what the test has printed; for a package, what those of its tests
// have that did not come to an end.
func (t *tally) show(key string, out io.Writer) error {
	for _, k := range slices.Sorted(maps.Keys(t.output)) {
		if k != key && (!strings.HasSuffix(key, " ") || !strings.HasPrefix(k, key)) {
			continue
		}
		if _, err := io.WriteString(out, t.output[k].String()); err != nil {
			return err
		}
		delete(t.output, k)
	}
	return nil
}

func (t *tally) verdict() error {
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
