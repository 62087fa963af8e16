package placement

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// stays returns the reason why an object is never placed; "" if it may be.
func stays(id key.Object, row *table.Row) string {
	if why := Never(id.Resource); why != "" {
		return why
	}
	if row.Meta.Deleting {
		return "the object is being deleted"
	}
	return ""
}

// leaves reports whether an object is being deleted and its locations must confirm its removal.
func leaves(row *table.Row) bool {
	return row.Meta.Deleting && slices.ContainsFunc(gjson.GetBytes(row.Value, "metadata.finalizers").Array(), func(f gjson.Result) bool {
		return f.Str == v1alpha1.RemovalFinalizer
	})
}

// isFinalized reports whether an object is being deleted and a finalizer of a client keeps it.
func isFinalized(row *table.Row) bool {
	return row.Meta.Deleting && slices.ContainsFunc(gjson.GetBytes(row.Value, "metadata.finalizers").Array(), func(f gjson.Result) bool {
		return f.Str != v1alpha1.RemovalFinalizer
	})
}

// isKept reports whether an object is being deleted and stays assigned until its finalizers are removed.
func isKept(row *table.Row) bool {
	m, ok := row.In.(*Membership)
	return row.Meta.Deleting && ok && m != nil && !m.leaves
}

// Never returns the reason why objects of a resource are never placed; "" if they may be.
func Never(r key.Resource) string {
	switch {
	case r.Group == v1alpha1.Group:
		return "objects of Orrery's own API are never placed"
	case r.Resource == "events" && (r.Group == key.CoreGroup || r.Group == "events.k8s.io"):
		return "Events are never placed"
	case r.Group == "coordination.k8s.io" && r.Resource == "leases":
		return "Leases are never placed"
	}
	return ""
}

// direct is the assignment by the object's own annotations.
type direct struct {
	given     bool
	locations []key.Location // in order
	returns   returns
	// problem is the error in an annotation, which then has no effect.
	problem string
}

// UnknownLocations returns the locations that the annotation of an object names but that the object
// does not get, with the reason in one word: the space sees no such location, or it has a taint with
// effect Evict. It is empty for objects that are never placed.
func UnknownLocations(state table.Reader, o key.Object, row *table.Row) map[key.Location]string {
	if row.Meta.InsertAnnotation == 0 || stays(o, row) != "" {
		return nil
	}
	var unknown map[key.Location]string
	add := func(l key.Location, reason string) {
		if unknown == nil {
			unknown = map[key.Location]string{}
		}
		unknown[l] = reason
	}
	t := tenantOf(state, o.Space)
	for _, l := range directOf(row).locations {
		location := state.Get(l.Key())
		if loc := siteOf(location); loc == nil || !isVisible(location, t) {
			add(l, v1alpha1.ReasonNoSuchLocation)
		} else if !loc.open() {
			add(l, v1alpha1.ReasonTainted)
		}
	}
	return unknown
}

func directOf(row *table.Row) direct {
	var d direct
	value := row.Annotation(v1alpha1.AssignedLocationsAnnotation)
	if value == "" {
		return d
	}
	d.given = true
	if err := json.Unmarshal([]byte(value), &d.locations); err != nil {
		d.locations = nil
		d.problem = fmt.Sprintf("annotation %s: want a JSON list of names: %v", v1alpha1.AssignedLocationsAnnotation, err)
		return d
	}
	slices.Sort(d.locations)
	d.locations = slices.Compact(d.locations)
	policy := v1alpha1.ReturnStatus(row.Annotation(v1alpha1.ReturnStatusAnnotation))
	if d.returns = returnsOf(policy); d.returns == returnsDefault && policy != "" {
		d.problem = fmt.Sprintf("annotation %s: want %s, %s or %s, not %q", v1alpha1.ReturnStatusAnnotation,
			v1alpha1.ReturnStatusNone, v1alpha1.ReturnStatusSingleton, v1alpha1.ReturnStatusRollup, policy)
	}
	return d
}
