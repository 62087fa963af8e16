package main

import (
	"fmt"
	"maps"
	"slices"
)

const lowerCommand = "go run -C tools ./gates -lower"

// An outcome is how a gate compares with its allowances.
type outcome struct {
	measurement
	above []problem // fail: too much
	stale []string  // fail: rows that have to be lowered or removed
}

func (o outcome) passed() bool { return o.err == nil && len(o.above) == 0 && len(o.stale) == 0 }

// A problem is a subject above its allowance.
type problem struct {
	subject
	allowed int
	hasRow  bool
}

// check compares each gate with its rows.
func check(measured []measurement, rows allowances) []outcome {
	outcomes := make([]outcome, len(measured))
	for i, m := range measured {
		outcomes[i] = outcome{measurement: m}
		if m.err == nil {
			outcomes[i].compare(rows)
		}
	}
	return outcomes
}

func (o *outcome) compare(rows allowances) {
	exists := map[string]bool{}
	for _, s := range o.subjects {
		exists[s.name] = true
		row, hasRow := rows[key{o.gate.name, s.name}]
		switch allowed := max(row, s.goal); {
		case s.figure > allowed:
			o.above = append(o.above, problem{s, allowed, hasRow})
		case hasRow && s.figure <= s.goal:
			o.stale = append(o.stale, fmt.Sprintf("%s meets the goal and needs no row", s.name))
		case hasRow && s.figure < row:
			o.stale = append(o.stale, fmt.Sprintf("%s is below its row: %d instead of %d %s", s.name, s.figure, row, o.gate.unit))
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(rows), compareKeys) {
		if k.gate == o.gate.name && !exists[k.subject] {
			o.stale = append(o.stale, "there is no "+k.subject+": remove its row, or rename the subject of the row")
		}
	}
}
