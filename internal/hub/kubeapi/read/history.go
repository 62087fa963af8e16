package read

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// history has the changes and the past states of a view. Undoing the changes since a revision leads to
// the state at that revision. It only has the revisions in the window of the table.
type history struct{ view *view }

// rewound returns a state at an earlier revision by undoing the changes since then. ok is false if
// the window of the table does not contain all of them.
func (h *history) rewound(q query, st state, rev int64) (past state, ok bool) {
	if rev > st.rev {
		return state{}, false
	}
	l, ofReports := h.view.lens.(reportsLens)
	var snapshot *table.Snapshot
	if ofReports { // st is of an earlier snapshot of the table
		snapshot = h.view.table.Snapshot()
		st.rev = snapshot.Rev
	}
	before, ok := h.changedSince(q, rev, st.rev)
	switch {
	case !ok:
		return state{}, false
	case ofReports:
		return l.past(newWorld(snapshot, before), q, rev), true
	}
	rows := make([]*table.Row, 0, len(before))
	for _, row := range before {
		if row != nil && h.view.lens.contains(row) {
			rows = append(rows, row)
		}
	}
	st.from("", func(row *table.Row) bool {
		if _, changed := before[row.Key]; !changed {
			rows = append(rows, row)
		}
		return true
	})
	slices.SortFunc(rows, func(a, b *table.Row) int { return strings.Compare(h.view.lens.place(a), h.view.lens.place(b)) })
	return listed(h.view.lens, rev, rows), true
}

// changedSince returns, by key, the rows that changed after one revision and up to another, as they
// were before; nil for rows that did not exist.
func (h *history) changedSince(q query, rev, upTo int64) (before map[string]*table.Row, ok bool) {
	before = map[string]*table.Row{}
	ok = between(h.view.table, rev, upTo, func(c table.Change) (more bool) {
		k := c.Row().Key
		if _, known := before[k]; !known && (h.view.display.reports || q.matches(k)) {
			before[k] = c.Prev
		}
		return true
	}, h.view.lens.topics(q)...)
	return before, ok
}

// between calls fn for the changes of topics after one revision and up to another, in order, until
// fn returns false. ok is false if the window of the table does not contain all of them.
func between(t *table.Table, rev, upTo int64, fn func(table.Change) (more bool), topics ...table.Topic) (ok bool) {
	sub, err := t.Subscribe(rev, nil, topics...)
	if err != nil {
		return false
	}
	defer sub.Close()
	for reached := rev; reached < upTo; {
		steps, polled, err := sub.Poll()
		if err != nil {
			return false
		}
		for _, step := range steps {
			for _, c := range step.Changes {
				if step.Rev <= upTo && !fn(c) {
					return true
				}
			}
		}
		reached = polled
	}
	return true
}

// composed returns the changes of the view's objects in steps up to a revision. An object is also
// composed of rows that a step did not change. These are read from the current table, and then the
// steps are undone one by one.
func (h *history) composed(q query, steps []table.Step, upTo int64) ([]table.Step, error) {
	l, ok := h.view.lens.(reportsLens)
	if !ok || len(steps) == 0 {
		return steps, nil
	}
	target, ok := l.target(q)
	if !ok {
		return nil, nil
	}
	w := world{snap: h.view.table.Snapshot(), before: map[string]*table.Row{}}
	if w.snap.Rev > upTo {
		if w.before, ok = h.changedSince(q, upTo, w.snap.Rev); !ok {
			return nil, table.ErrExpired
		}
	}
	positions := l.positionsOf(w, q, target, steps)
	made := make([]table.Step, 0, len(steps))
	for i, original := range slices.Backward(steps) {
		changes := map[position]table.Change{}
		for p := range positions[i] {
			changes[p] = table.Change{Cur: p.make(q.resource, w.get)}
		}
		for _, c := range original.Changes {
			w.before[c.Row().Key] = c.Prev
		}
		step := table.Step{Rev: original.Rev}
		for _, p := range slices.SortedFunc(maps.Keys(changes), func(a, b position) int { return cmp.Compare(a.String(), b.String()) }) {
			if c := (table.Change{Prev: p.make(q.resource, w.get), Cur: changes[p].Cur}); c.Prev != nil || c.Cur != nil {
				step.Changes = append(step.Changes, c)
			}
		}
		made = append(made, step)
	}
	slices.Reverse(made)
	return made, nil
}
