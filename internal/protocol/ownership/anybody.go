package ownership

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// Anybodys reports whether the agent of any location placed the object, or created it for a placed
// object, by its ownership metadata. Labels alone prove nothing, since controllers copy them.
func (m *Meta) Anybodys(resource key.Resource, kind string) bool {
	if resource == key.Namespaces && m.Annotations[v1alpha1.ImpliedAnnotation] != "" {
		return true
	}
	mark := m.Labels[v1alpha1.LocationLabel]
	if mark == "" || key.ValidateMark(mark) != nil {
		return false
	}
	for _, placing := range []key.Placing{key.Same, key.Prefixed} {
		if _, ours := m.ProvesOurs(Owner(mark), Kind{Resource: resource, Name: kind, Placing: placing}); ours {
			return true
		}
	}
	return false
}
