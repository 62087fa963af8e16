package aggregate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxErrors bounds the locations with shown errors.
	maxErrors = 10
	// maxStatus bounds the size of shown rows, in bytes.
	maxStatus = 128 << 10
)

// Row is a row that can be merged with the same row of other States.
type Row struct {
	pair     Pair
	index    int
	keys     []Value
	n        int64
	partials []Partial
}

func (r *Row) compare(o *Row) int {
	return cmp.Or(r.pair.compare(o.pair), cmp.Compare(r.index, o.index), compareAll(r.keys, o.keys))
}

// Rows returns all rows, in order.
func (s *State) Rows() []Row { return s.first(len(s.groups)) }

// first returns the first n rows, or all.
func (s *State) first(n int) []Row {
	rows := make([]Row, 0, min(n, len(s.groups)))
	s.order.Scan(func(g *group) bool {
		if len(rows) == n {
			return false
		}
		rows = append(rows, g.row())
		return true
	})
	return rows
}

func (g *group) row() Row {
	r := Row{pair: g.pair, index: g.index, keys: g.keys, n: g.n, partials: make([]Partial, len(g.accus))}
	for i := range g.accus {
		r.partials[i] = g.accus[i].partial()
	}
	return r
}

// Merge merges rows of two States with the same Definition and different pairs.
func Merge(a, b []Row) []Row {
	merged := make([]Row, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].compare(&b[0]); {
		case c < 0:
			merged, a = append(merged, a[0]), a[1:]
		case c > 0:
			merged, b = append(merged, b[0]), b[1:]
		default:
			r := Row{pair: a[0].pair, index: a[0].index, keys: a[0].keys, n: a[0].n + b[0].n}
			for i := range a[0].partials {
				r.partials = append(r.partials, a[0].partials[i].Merge(b[0].partials[i]))
			}
			merged, a, b = append(merged, r), a[1:], b[1:]
		}
	}
	return slices.Concat(merged, a, b)
}

// Show sets the table of some rows in a status: columns, rows and truncation. It returns the
// condition Complete.
func (d *Definition) Show(rows []Row, st *v1alpha1.SummaryStatus) metav1.Condition {
	if len(rows) == 0 && d.isOneRow() {
		rows = []Row{{partials: make([]Partial, len(d.combined))}}
	}
	all := make([]traits, d.columns())
	for i := range rows {
		d.countTraits(all, d.traitsOf(&rows[i], nil), 1)
	}
	return d.show(rows[:min(len(rows), d.limit)], len(rows), all, st)
}

// isOneRow reports whether there is exactly one row, even without objects.
func (d *Definition) isOneRow() bool { return !d.selects && len(d.keys) == 0 }

// show sets a table in a status: its first rows, their total number, and the traits of the columns
// of all rows.
func (d *Definition) show(first []Row, total int, all []traits, st *v1alpha1.SummaryStatus) metav1.Condition {
	st.Rows, st.Columns, st.Total, st.Truncated = nil, nil, int64(total), total > d.limit
	room := maxStatus
	for i := range first {
		row := make(v1alpha1.SummaryRow, d.columns())
		for j := range row {
			v, _ := d.cell(&first[i], j)
			row[j] = apiextensionsv1.JSON{Raw: v.JSON()}
			room -= len(row[j].Raw) + 1
		}
		if room < 0 {
			break
		}
		st.Rows = append(st.Rows, row)
	}
	mixed := ""
	for j := range all {
		c := d.column(j)
		if all[j].mixed > 0 && mixed == "" {
			mixed = c.name
		}
		st.Columns = append(st.Columns, v1alpha1.SummaryColumn{Name: c.name, Type: c.typeOf(&all[j])})
	}
	st.Truncated = st.Truncated || room < 0
	complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Counted", Message: "everything is counted"}
	switch {
	case room < 0:
		complete = incomplete(v1alpha1.ReasonTooLarge, fmt.Sprintf("the rows that are not shown would make the status larger than %d bytes", maxStatus))
	case mixed != "":
		complete = incomplete(v1alpha1.ReasonMixedTypes, fmt.Sprintf("column %q is null where values can't be combined with each other, as durations with numbers", mixed))
	}
	return complete
}

func incomplete(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Overfull returns the condition of a Summary that exceeds the memory limit, and has no rows.
func Overfull() metav1.Condition {
	return incomplete(v1alpha1.ReasonTooLarge, "it would take too much memory to count: let match, filter or groupBy be about less")
}

// Status sets the counted values in a status. It returns the condition Complete. stale reports whether the
// reports of a location may be old.
func (s *State) Status(st *v1alpha1.SummaryStatus, stale func(key.Location) bool) metav1.Condition {
	st.Counted, st.Stale, st.Failed, st.Errors = s.n, 0, int64(s.failing.Len()), nil
	for l, n := range s.byLocation {
		if stale(l) {
			st.Stale += n
		}
	}
	for from := (failure{}); len(st.Errors) < maxErrors; {
		found := false
		s.failing.Ascend(from, func(f failure) bool {
			st.Errors = append(st.Errors, v1alpha1.SummaryError{Location: string(f.location), Message: f.message})
			from, found = failure{location: key.Location(strings.Clone(string(f.location)) + "\x00")}, true
			return false
		})
		if !found {
			break
		}
	}
	if len(s.groups) == 0 {
		return s.Show(nil, st)
	}
	return s.show(s.first(s.limit), len(s.groups), s.updatedTraits(), st)
}
