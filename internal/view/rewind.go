package view

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/table"
)

// rewound is a state as it was at an earlier revision: the window's changes in between are
// undone. ok is false if the window does not reach back that far.
func (r *reader) rewound(q query, st state, rev int64) (past state, ok bool) {
	if rev > st.rev {
		return state{}, false
	}
	l, ofReports := r.lens.(reportsLens)
	var snapshot *table.Snapshot
	if ofReports { // its state is of another snapshot of the same table
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
		if row != nil && r.lens.holds(row) {
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

// changedSince has, by key, the rows that changed after a revision and up to another, as
// they were before; nil for those that did not exist.
func (r *reader) changedSince(q query, rev, upTo int64) (before map[string]*table.Row, ok bool) {
	sub, err := r.server.config.Table.Subscribe(rev, nil, r.lens.topics(q)...)
	if err != nil {
		return nil, false
	}
	defer sub.Close()
	before = map[string]*table.Row{}
	for reached := rev; reached < upTo; {
		steps, polled, err := sub.Poll()
		if err != nil {
			return nil, false
		}
		for _, step := range steps {
			for _, c := range step.Changes {
				k := c.Row().Key
				if _, known := before[k]; !known && step.Rev <= upTo && (r.look.reports || q.about(k)) {
					before[k] = c.Prev
				}
			}
		}
		reached = polled
	}
	return before, true
}
