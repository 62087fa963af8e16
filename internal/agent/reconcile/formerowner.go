package reconcile

import (
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// otherOwner returns the owner of an object that another location has placed; empty if none has. The
// complete ownership metadata must prove it, since controllers copy labels.
func otherOwner(t *turn, m *ownership.Meta) ownership.Owner {
	owner := ownership.Owner(m.Labels[v1alpha1.LocationLabel])
	if owner == "" || owner == t.view.As || m.ProvesAny([]ownership.Owner{owner}, t.kind()) == "" || !m.Written(owner) {
		return ""
	}
	return owner
}

// namesOwner adds to the report of a conflict which location has placed the object, and how to take it over.
func namesOwner(t *turn, o outcome) outcome {
	if t.otherOwner == "" || o.State != wire.InConflict || o.Reason != v1alpha1.ReasonExists || o.keep {
		return o
	}
	o.Message = fmt.Sprintf("the object at the location was placed by another location, with the label %s=%s; if that location was removed, "+
		"take its objects over by adding %[2]s to spec.takesOver of this Location (of a new one: orrery location add NAME --takes-over %[2]s)",
		v1alpha1.LocationLabel, t.otherOwner)
	return o
}
