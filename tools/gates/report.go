package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxFindings is how many findings of a subject are printed.
	maxFindings = 20
	// maxStale is how many rows to be lowered are printed for a gate.
	maxStale = 20
)

// report prints the totals or the problems of each gate. It reports whether all gates passed.
func report(t *tree, outcomes []outcome, out *output) bool {
	passed := true
	for _, o := range outcomes {
		if o.passed() {
			fmt.Fprintln(&out.totals, totals(o))
			continue
		}
		passed = false
		reportFailure(t, o, &out.problems)
	}
	return passed
}

// totals returns the line of a gate that passed.
func totals(o outcome) string {
	if o.skipped != "" {
		return o.gate.name + ": " + o.skipped
	}
	subjects, sum := 0, 0
	for _, s := range o.subjects {
		if s.figure > s.goal {
			subjects++
			sum += s.figure
		}
	}
	g := o.gate
	if subjects == 0 {
		return fmt.Sprintf("%s: %d %s meet the goal: %s", g.name, len(o.subjects), g.subjects, g.goal)
	}
	return fmt.Sprintf("%s: %d of %d %s exceed the goal (%s); their allowances cover %d %s", g.name, subjects, len(o.subjects), g.subjects, g.goal, sum, g.unit)
}

func reportFailure(t *tree, o outcome, w *bytes.Buffer) {
	if o.err != nil {
		fmt.Fprintf(w, "%s: not measured: %v\n", o.gate.name, o.err)
		return
	}
	for _, p := range o.above {
		if o.gate.strict {
			fmt.Fprintf(w, "%s: %s: %s\n", o.gate.name, p.name, p.findings[0])
			continue
		}
		fmt.Fprintf(w, "%s: %s is above its allowance: %d instead of %d %s\n", o.gate.name, p.name, p.figure, p.allowed, o.gate.unit)
		printFindings(w, o.gate.name, p.name, t.changes().first(p.findings))
	}
	if len(o.above) > 0 {
		fmt.Fprintf(w, "%s: next: %s\n", o.gate.name, o.gate.advice)
	}
	if len(o.stale) > 0 && slices.ContainsFunc(o.above, func(p problem) bool { return !p.hasRow }) {
		fmt.Fprintf(w, "%s: if a subject has moved, edit its row in %s\n", o.gate.name, allowancesFile)
	}
	for _, s := range o.stale[:min(len(o.stale), maxStale)] {
		fmt.Fprintf(w, "%s: %s\n", o.gate.name, s)
	}
	if hidden := len(o.stale) - maxStale; hidden > 0 {
		fmt.Fprintf(w, "%s: and %d more rows\n", o.gate.name, hidden)
	}
	if len(o.stale) > 0 {
		fmt.Fprintf(w, "%s: next: %s, and commit %s\n", o.gate.name, lowerCommand, allowancesFile)
	}
}

func printFindings(w *bytes.Buffer, gate, subject string, all []finding) {
	for _, f := range all[:min(len(all), maxFindings)] {
		fmt.Fprintf(w, "  %s\n", f)
	}
	if hidden := len(all) - maxFindings; hidden > 0 {
		fmt.Fprintf(w, "  and %d more: go run -C tools ./gates -list %s %s\n", hidden, gate, subject)
	}
}

// list prints all findings of a gate, for the subjects above the goal whose name starts with
// below.
func list(t *tree, name, below string, out *bytes.Buffer) error {
	all := gates()
	i := slices.IndexFunc(all, func(g gate) bool { return g.name == name })
	if i < 0 {
		return fmt.Errorf("-list: there is no gate %q", name)
	}
	r, err := all[i].measure(t)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range r.subjects {
		if s.figure <= s.goal || !strings.HasPrefix(s.name, below) {
			continue
		}
		fmt.Fprintf(out, "%s: %d instead of %d %s\n", s.name, s.figure, s.goal, all[i].unit)
		for _, f := range s.findings {
			fmt.Fprintf(out, "  %s\n", f)
		}
	}
	return nil
}
