package placement

import (
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// terms are the restrictions of a Location: the text of its spec.admit, empty if there is none, and
// its namespace mapping. The zero value has no restrictions.
type terms struct {
	text    string
	placing key.Placing
}

// termsOf returns the terms of a Location's row; row may be nil.
func termsOf(row *table.Row) (t terms) {
	if row == nil {
		return t
	}
	return terms{admitTextOf(row), PlacingOf(row)}
}

// PlacingOf returns the namespace mapping of a Location's row; row may be nil.
func PlacingOf(row *table.Row) key.Placing {
	if row != nil && gjson.GetBytes(row.Value, "spec.namespaces").Str == string(v1alpha1.NamespacesPrefixed) {
		return key.Prefixed
	}
	return key.Same
}

// compile compiles the terms; nil if there are no restrictions.
func (t terms) compile() *admit {
	a := compileAdmit(t.text)
	if t.placing == key.Same {
		return a
	}
	if a == nil {
		a = &admit{entries: []admitEntry{{}}, everySpace: true}
	}
	a.placing = t.placing
	return a
}

// Results of decide if no entry admits an object.
const (
	notAdmitted   = -1
	clusterScoped = -2
)

// reasonOf returns the reason of a decision in one word; empty if the object is admitted.
func reasonOf(decision int) string {
	switch decision {
	case notAdmitted:
		return v1alpha1.ReasonNotAdmitted
	case clusterScoped:
		return v1alpha1.ReasonClusterScoped
	}
	return ""
}
