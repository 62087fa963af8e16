package read

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// rewound returns a state at an earlier revision by undoing the changes since then. ok is false if
// the window of the table does not contain all of them.
func (r *reader) rewound(q query, st state, rev int64) (past state, ok bool) {
	if rev > st.rev {
		return state{}, false
	}
	l, ofReports := r.lens.(reportsLens)
	var snapshot *table.Snapshot
	if ofReports { // st is of an earlier snapshot of the table
		snapshot = r.server.config.Table.Snapshot()
		st.rev = snapshot.Rev
	}
	before, ok := r.changedSince(q, rev, st.rev)
	switch {
	case !ok:
		return state{}, false
	case ofReports:
		return l.past(newWorld(snapshot, before), q, rev), true
	}
	rows := make([]*table.Row, 0, len(before))
	for _, row := range before {
		if row != nil && r.lens.contains(row) {
			rows = append(rows, row)
		}
	}
	st.from("", func(row *table.Row) bool {
		if _, changed := before[row.Key]; !changed {
			rows = append(rows, row)
		}
		return true
	})
	slices.SortFunc(rows, func(a, b *table.Row) int { return strings.Compare(r.lens.place(a), r.lens.place(b)) })
	return listed(r.lens, rev, rows), true
}

// changedSince returns, by key, the rows that changed after one revision and up to another, as they
// were before; nil for rows that did not exist.
func (r *reader) changedSince(q query, rev, upTo int64) (before map[string]*table.Row, ok bool) {
	before = map[string]*table.Row{}
	ok = between(r.server.config.Table, rev, upTo, func(c table.Change) (more bool) {
		k := c.Row().Key
		if _, known := before[k]; !known && (r.display.reports || q.matches(k)) {
			before[k] = c.Prev
		}
		return true
	}, r.lens.topics(q)...)
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
