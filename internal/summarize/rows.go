package summarize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
)

const (
	// maxErrors is of how many locations an error is shown.
	maxErrors = 10
	// maxStatus bounds the rows that are shown, in bytes.
	maxStatus = 128 << 10
)

// Row is a row that can be merged with the same one of other States.
type Row struct {
	pair     Pair
	keys     []Value
	n        int64
	partials []Partial
}

func (r *Row) compare(o *Row) int {
	return cmp.Or(r.pair.compare(o.pair), compareAll(r.keys, o.keys))
}

// Rows are all rows, in order.
func (s *State) Rows() []Row {
	rows := make([]Row, 0, len(s.groups))
	s.order.Scan(func(g *group) bool {
		r := Row{pair: g.pair, keys: g.keys, n: g.n}
		for i := range g.accus {
			r.partials = append(r.partials, g.accus[i].partial())
		}
		rows = append(rows, r)
		return true
	})
	return rows
}

// Merge merges rows of two States of one Definition that have different pairs.
func Merge(a, b []Row) []Row {
	merged := make([]Row, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].compare(&b[0]); {
		case c < 0:
			merged, a = append(merged, a[0]), a[1:]
		case c > 0:
			merged, b = append(merged, b[0]), b[1:]
		default:
			r := Row{pair: a[0].pair, keys: a[0].keys, n: a[0].n + b[0].n}
			for i := range a[0].partials {
				r.partials = append(r.partials, a[0].partials[i].Merge(b[0].partials[i]))
			}
			merged, a, b = append(merged, r), a[1:], b[1:]
		}
	}
	return slices.Concat(merged, a, b)
}

// Show puts the table of some rows into a status: columns, rows, what is truncated, and
// whether it is complete. When nothing is combined, a Summary without groups has a row all
// the same.
func (d *Definition) Show(rows []Row, st *v1alpha1.SummaryStatus) metav1.Condition {
	if len(rows) == 0 && !d.selects && len(d.keys) == 0 {
		rows = []Row{{partials: make([]Partial, len(d.combined))}}
	}
	columns := slices.Concat(d.keys, d.combined)
	seen, fractions, mixed := make([][families]bool, len(columns)), make([]bool, len(columns)), ""
	st.Rows, st.Columns, st.Total, st.Truncated = nil, nil, int64(len(rows)), len(rows) > d.limit
	room := maxStatus
	for i := range rows {
		cells := slices.Clone(rows[i].keys)
		for j, p := range rows[i].partials {
			v, isMixed := p.result(d.combined[j].as)
			if isMixed && mixed == "" {
				mixed = d.combined[j].name
			}
			cells = append(cells, v)
		}
		for j, v := range cells {
			seen[j][v.family] = true
			fractions[j] = fractions[j] || !v.of.isWhole()
		}
		if i >= d.limit || room < 0 {
			continue
		}
		row := make(v1alpha1.SummaryRow, len(cells))
		for j, v := range cells {
			row[j] = apiextensionsv1.JSON{Raw: v.JSON()}
			room -= len(row[j].Raw) + 1
		}
		if room >= 0 {
			st.Rows = append(st.Rows, row)
		}
	}
	for j, c := range columns {
		known := seen[j]
		if c.program != nil {
			known[c.program.family()] = true
		}
		if c.as == v1alpha1.SummaryCount {
			known = [families]bool{number: true}
		}
		st.Columns = append(st.Columns, v1alpha1.SummaryColumn{Name: c.name, Type: columnType(known, fractions[j] || c.isFloat())})
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

// isFloat says that its values are floats, whatever their fractions.
func (c column) isFloat() bool {
	return c.program != nil && c.as != v1alpha1.SummaryCount && c.program.gives.TypeName() == "double"
}

func incomplete(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Overfull is the condition of a Summary that would hold more than it may, which has no rows.
func Overfull() metav1.Condition {
	return incomplete(v1alpha1.ReasonTooLarge, "it would take too much memory to count: let match, filter or groupBy be about less")
}

// Status puts what it has counted into a status, and says whether that is complete. away are
// the locations of which only the last report is known.
func (s *State) Status(st *v1alpha1.SummaryStatus, away func(key.Location) bool) metav1.Condition {
	st.Counted, st.Stale, st.Failed, st.Errors = s.n, 0, int64(s.failing.Len()), nil
	for l, n := range s.at {
		if away(l) {
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
	return s.Show(s.Rows(), st)
}
