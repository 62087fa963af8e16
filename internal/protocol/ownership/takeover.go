package ownership

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
)

// maxTakenFrom bounds how many former owners an object names.
const maxTakenFrom = 8

// ProvesAny is the owner, of some, that the object proves to be of; empty: of none.
func (m *Meta) ProvesAny(of []Owner, kind Kind) Owner {
	for _, l := range of {
		if _, proves := m.ProvesOurs(l, kind); proves {
			return l
		}
	}
	return ""
}

// TakenFrom are those as whom the object was marked before its owner took it over.
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

// Successor is the owner that has taken the object over from l; empty: none has. All marks
// have to prove that, since controllers copy labels and annotations.
func (m *Meta) Successor(l Owner, kind Kind) Owner {
	by := Owner(m.Labels[v1alpha1.LocationLabel])
	if by == l || !slices.Contains(m.TakenFrom(), l) || m.ProvesAny([]Owner{by}, kind) == "" || !m.Written(by) {
		return ""
	}
	return by
}

// Remarked is the owner, a location of the same name with another UID, that the object proves to be
// of; empty: it is of none. All marks have to prove that, as for Successor.
func (m *Meta) Remarked(l Owner, kind Kind) Owner {
	owner := Owner(m.Labels[v1alpha1.LocationLabel])
	if owner == l || owner.name() != l.name() || m.ProvesAny([]Owner{owner}, kind) == "" || !m.Written(owner) {
		return ""
	}
	return owner
}

// Succeed makes an object of a former owner, that m was read from, one of l: its label and
// managed fields, and who it was taken from. Nothing else of it changes.
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

// SelectorOf finds what has the label of any of some owners.
func SelectorOf(of []Owner) string {
	var values []string
	for _, o := range of {
		values = append(values, string(o))
	}
	return v1alpha1.LocationLabel + " in (" + strings.Join(values, ",") + ")"
}
