// Command gates fails when the source or the documents of the repository become harder to
// read, by the measures in gates.go.
//
// Each gate has a goal. A subject of a gate (a type, a package, a file) that is above the
// goal has a row in allowances.txt, and its figure must equal that row: a larger
// figure fails, and a smaller one fails until the row is lowered. So figures only shrink.
//
//	go run -C tools ./gates                             # check, as make lint does
//	go run -C tools ./gates -lower                      # lower the rows to the figures of today
//	go run -C tools ./gates -list words internal/hub    # all findings of a gate, for subjects below a path
//	go run -C tools ./gates -init                       # write all rows; the file must have none
//
// No commit raises a row, as history.go checks. After a move or a rename of a subject, edit the
// subject of its row. If CI=true is in the environment, a gate that cannot read all commits fails.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
)

// Exit codes: a gate failed, or the gates could not run.
const (
	exitFailed = 1
	exitError  = 2
)

type options struct {
	root        string
	isCI        bool
	lower, init bool
	list        string
	below       string // with list: the subjects
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "`directory` of the repository")
	flag.BoolVar(&o.lower, "lower", false, "lower rows of "+allowancesFile+" to the figures of today, and remove rows that are not needed")
	flag.BoolVar(&o.init, "init", false, "write a row for each subject above its goal; refused if "+allowancesFile+" has rows")
	flag.StringVar(&o.list, "list", "", "print all findings of a `gate`; an argument limits them to subjects that start with it")
	flag.Parse()
	o.isCI = os.Getenv("CI") == "true"
	o.below = flag.Arg(0)
	var out output
	passed, err := run(o, &out)
	switch err = errors.Join(err, out.print()); {
	case err != nil:
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(exitError)
	case !passed:
		os.Exit(exitFailed)
	}
}

// output is what the program prints: to standard output, and problems to standard error.
type output struct{ totals, problems bytes.Buffer }

func (o *output) print() error {
	_, errTotals := o.totals.WriteTo(os.Stdout)
	_, errProblems := o.problems.WriteTo(os.Stderr)
	return errors.Join(errTotals, errProblems)
}

// run reports whether all gates pass.
func run(o options, out *output) (bool, error) {
	t := newTree(o.root)
	t.isCI = o.isCI
	if o.list != "" {
		return true, list(t, o.list, o.below, &out.totals)
	}
	rows, err := readAllowances(o.root)
	if err != nil {
		return false, err
	}
	if o.init && len(rows) > 0 {
		return false, fmt.Errorf("-init: %s has rows; edit them, or use -lower", allowancesFile)
	}
	measured := measureAll(t, gates())
	if o.init || o.lower {
		before := len(rows)
		if rows, err = rewritten(rows, measured, o.init); err != nil {
			return false, err
		}
		if err := writeAllowances(o.root, rows); err != nil {
			return false, err
		}
		fmt.Fprintf(&out.totals, "%s: %d rows, %d before\n", allowancesFile, len(rows), before)
		measured = measureAll(t, gates()) // the history gate reads the new rows
	}
	return report(t, check(measured, rows), out), nil
}

// rewritten returns the rows after -init or -lower. A gate that could not be measured has
// no figures to write, so then nothing is written.
func rewritten(rows allowances, measured []measurement, isInit bool) (allowances, error) {
	for _, m := range measured {
		if m.err != nil {
			return nil, fmt.Errorf("%s is unchanged, because gate %s failed: %w", allowancesFile, m.gate.name, m.err)
		}
	}
	if isInit {
		return initial(measured), nil
	}
	return lowered(rows, measured), nil
}
