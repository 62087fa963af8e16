package main

import (
	"slices"
	"strconv"
	"strings"
)

// An edit is what a commit changes in the allowances, compared with each of its parents.
type edit struct {
	commit string // its hash; empty: the working tree
	diffs  []rowDiff
}

// A rowDiff holds the rows that differ, before and after.
type rowDiff struct{ before, after allowances }

// readEdits returns the edits since a commit, parents first. The last one is the working tree. A
// merge that takes all rows from one parent is no edit, and edits only of other parents are left out.
func readEdits(root, first string) ([]edit, error) {
	diff := []string{"--unified=0", "--no-ext-diff", "--no-textconv", "--text"}
	log, err := git(root, slices.Concat([]string{"log", "--topo-order", "--reverse", "--diff-merges=separate", "--patch"},
		diff, []string{"--format=commit %H", first + "..HEAD", "--", allowancesFile})...)
	if err != nil {
		return nil, err
	}
	edits := parseEdits(log)
	today := edit{}
	for _, parent := range []string{"HEAD", "MERGE_HEAD"} {
		if _, err := git(root, "rev-parse", "--quiet", "--verify", parent); err != nil {
			continue // no merge is in progress
		}
		text, err := git(root, slices.Concat([]string{"diff"}, diff, []string{parent, "--", allowancesFile})...)
		if err != nil {
			return nil, err
		}
		today.diffs = append(today.diffs, parseRowDiff(text))
	}
	return append(edits, today), nil
}

// parseEdits reads a log with patches. A merge has a patch for each parent.
func parseEdits(log string) []edit {
	var edits []edit
	for text := range strings.SplitSeq("\n"+log, "\ncommit ") {
		hash, patch, ok := strings.Cut(text, "\n")
		if !ok {
			continue
		}
		if last := len(edits) - 1; last < 0 || edits[last].commit != hash {
			edits = append(edits, edit{commit: hash})
		}
		e := &edits[len(edits)-1]
		e.diffs = append(e.diffs, parseRowDiff(patch))
	}
	return edits
}

// parseRowDiff reads the rows of a patch. Rows of gates that no longer exist count, too.
func parseRowDiff(patch string) rowDiff {
	d := rowDiff{allowances{}, allowances{}}
	for line := range strings.Lines(patch) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(fields) != 3 {
			continue
		}
		figure, err := strconv.Atoi(fields[2])
		if err != nil {
			continue
		}
		if gate, ok := strings.CutPrefix(fields[0], "-"); ok {
			d.before[key{gate, fields[1]}] = figure
		} else if gate, ok := strings.CutPrefix(fields[0], "+"); ok {
			d.after[key{gate, fields[1]}] = figure
		}
	}
	return d
}

// changes reports whether a row differs.
func (d rowDiff) changes(k key) bool {
	_, isBefore := d.before[k]
	_, isAfter := d.after[k]
	return isBefore || isAfter
}

// higher returns the rows that are new or higher than in each parent: after a merge of two
// branches, a row may be as high as in the branch with the higher one.
func (e edit) higher() map[key]raisedRow {
	rows := map[key]raisedRow{}
	for k, figure := range e.diffs[0].after {
		highest := 0
		for _, d := range e.diffs {
			before := d.before[k]
			if !d.changes(k) {
				before = figure
			}
			highest = max(highest, before)
		}
		if figure > highest {
			rows[k] = raisedRow{e.commit, highest, figure}
		}
	}
	return rows
}
