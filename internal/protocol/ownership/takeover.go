package ownership

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
)

// maxTakenFrom is the maximum number of former owners that an object names.
const maxTakenFrom = 8

// ProvesAny returns which of the owners the object belongs to by its ownership metadata; empty for
// none.
func (m *Meta) ProvesAny(owners []Owner, kind Kind) Owner {
	for _, l := range owners {
		if _, proves := m.ProvesOurs(l, kind); proves {
			return l
		}
	}
	return ""
}

// TakenFrom returns the former owners of the object.
func (m *Meta) TakenFrom() []Owner {
	text := m.Annotations[v1alpha1.TakenFromAnnotation]
	if text == "" {
		return nil
	}
	var all []Owner
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, Owner(one))
	}
	return all
}

// Successor returns the owner that has taken the object over from l; empty if there is none. The
// complete ownership metadata must prove it, since controllers copy labels and annotations.
func (m *Meta) Successor(l Owner, kind Kind) Owner {
	successor := Owner(m.Labels[v1alpha1.LocationLabel])
	if successor == l || !slices.Contains(m.TakenFrom(), l) || m.ProvesAny([]Owner{successor}, kind) == "" || !m.Written(successor) {
		return ""
	}
	return successor
}

// Remarked returns the owner of the object if it is a location of the same name with another UID;
// empty otherwise. The complete ownership metadata must prove it, as for Successor.
func (m *Meta) Remarked(l Owner, kind Kind) Owner {
	owner := Owner(m.Labels[v1alpha1.LocationLabel])
	if owner == l || owner.name() != l.name() || m.ProvesAny([]Owner{owner}, kind) == "" || !m.Written(owner) {
		return ""
	}
	return owner
}

// Succeed returns a patch that makes an object of a former owner, which m was read from, one of l.
// It sets label, managed fields and the list of former owners, and changes nothing else.
func Succeed(m *Meta, from, l Owner) any {
	before := slices.DeleteFunc(m.TakenFrom(), func(o Owner) bool { return o == l || o == from })
	before = append(before, from)
	var names []string
	for _, o := range before[max(0, len(before)-maxTakenFrom):] {
		names = append(names, string(o))
	}
	fields, _ := takeOver(m.ManagedFields, l, func(manager string) bool { return manager == from.Manager() || l.Former(manager) })
	return patch(m, map[string]any{
		"managedFields": orNone(fields),
		"labels":        map[string]any{v1alpha1.LocationLabel: string(l)},
		"annotations":   map[string]any{v1alpha1.TakenFromAnnotation: strings.Join(names, ",")},
	})
}

// SelectorOf returns a label selector for the objects of any of the owners.
func SelectorOf(owners []Owner) string {
	var values []string
	for _, o := range owners {
		values = append(values, string(o))
	}
	return v1alpha1.LocationLabel + " in (" + strings.Join(values, ",") + ")"
}
