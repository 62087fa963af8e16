package placement

import (
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// terms are on what terms a Location takes objects: the text of its spec.admit, empty for
// none, and where it puts them. The zero terms take everything as it is.
type terms struct {
	text    string
	placing key.Placing
}

// termsOf are the terms of a Location as it is in the log; nil is one that is gone.
func termsOf(row *table.Row) (t terms) {
	if row == nil {
		return t
	}
	return terms{admitTextOf(row), PlacingOf(row)}
}

// PlacingOf is where the Location of a row puts objects at its cluster; nil is one that is
// gone.
func PlacingOf(row *table.Row) key.Placing {
	if row != nil && gjson.GetBytes(row.Value, "spec.namespaces").Str == string(v1alpha1.NamespacesPrefixed) {
		return key.Prefixed
	}
	return key.Same
}

// compile compiles the terms; nil for those that take everything.
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

// What decide gives where no entry admits an object.
const (
	notAdmitted   = -1
	clusterScoped = -2
)

// reasonOf is the reason of a decision in one word; empty if it admits.
func reasonOf(decision int) string {
	switch decision {
	case notAdmitted:
		return v1alpha1.ReasonNotAdmitted
	case clusterScoped:
		return v1alpha1.ReasonClusterScoped
	}
	return ""
}
