package main

import (
	"fmt"
	"maps"
)

// historyFile is in the first commit whose successors must not raise a row.
const historyFile = "tools/gates/history.go"

// measureHistory finds rows of the allowances that are new or higher than one commit before. It
// compares each commit since historyFile was added with its parents, and the working tree with HEAD.
// A row that was raised counts until a later commit brings it back.
func measureHistory(t *tree) (result, error) {
	return sinceCommit(t, historyFile, func(first string) (result, error) {
		rows, err := readAllowances(t.root)
		if err != nil {
			return result{}, err
		}
		edits, err := readEdits(t.root, first)
		if err != nil {
			return result{}, err
		}
		raised, err := raisedRows(t.root, edits)
		if err != nil {
			return result{}, err
		}
		var subjects []subject
		for k, figure := range rows {
			s := subject{name: k.gate + " " + k.subject}
			if r, ok := raised[k]; ok && figure > r.before {
				s.figure = 1
				s.findings = []finding{{text: r.String()}}
			}
			subjects = append(subjects, s)
		}
		return result{subjects: sorted(subjects)}, nil
	})
}

// A raisedRow is a row that a commit must not raise.
type raisedRow struct {
	commit        string // empty: the working tree
	before, after int
}

func (r raisedRow) String() string {
	actor := "the working tree"
	if r.commit != "" {
		actor = "commit " + r.commit[:min(hashLength, len(r.commit))]
	}
	if r.before == 0 {
		return fmt.Sprintf("%s adds this row, with %d", actor, r.after)
	}
	return fmt.Sprintf("%s raises this row from %d to %d", actor, r.before, r.after)
}

// raisedRows returns the rows that an edit must not raise and that no later edit brought back.
func raisedRows(root string, edits []edit) (map[key]raisedRow, error) {
	open := map[key]raisedRow{}
	for _, e := range edits {
		for _, d := range e.diffs {
			maps.DeleteFunc(open, func(k key, r raisedRow) bool {
				return d.changes(k) && d.after[k] <= r.before
			})
		}
		rows := e.higher()
		if len(rows) == 0 {
			continue
		}
		allowed, err := e.allowed(root, rows)
		if err != nil {
			return nil, err
		}
		for k, r := range rows {
			if _, isOpen := open[k]; !isOpen && !allowed[k] {
				open[k] = r
			}
		}
	}
	return open, nil
}

// allowed returns those of the higher rows that a commit may raise. A merge may raise none.
func (e edit) allowed(root string, rows map[key]raisedRow) (map[key]bool, error) {
	if len(e.diffs) > 1 {
		return nil, nil
	}
	files, err := e.files(root)
	if err != nil {
		return nil, err
	}
	sums := e.diffs[0].sums(files)
	allowed := map[key]bool{}
	for k := range rows {
		_, hadRow := e.diffs[0].before[k]
		isMove := files.addTo(k) || k.gate == methodsGate && !hadRow // a type with a new name
		allowed[k] = files.recount(k) || isMove && sums[k.gate] <= 0
	}
	return allowed, nil
}

// sums returns how much the rows of each gate rise in total, apart from recounted rows.
func (d rowDiff) sums(files changedFiles) map[string]int {
	sums := map[string]int{}
	for k, figure := range d.after {
		if !files.recount(k) {
			sums[k.gate] += figure
		}
	}
	for k, figure := range d.before {
		if !files.recount(k) {
			sums[k.gate] -= figure
		}
	}
	return sums
}
