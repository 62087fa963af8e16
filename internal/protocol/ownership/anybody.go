package ownership

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// Anybodys says whether the object proves to be placed, or made for what is placed, by the agent
// of any location. Labels alone prove nothing, since controllers copy them.
func (m *Meta) Anybodys(of key.Resource, kind string) bool {
	if of == key.Namespaces && m.Annotations[v1alpha1.ImpliedAnnotation] != "" {
		return true
	}
	by := m.Labels[v1alpha1.LocationLabel]
	if by == "" || key.ValidateMark(by) != nil {
		return false
	}
	for _, placing := range []key.Placing{key.Same, key.Prefixed} {
		if _, ours := m.ProvesOurs(Owner(by), Kind{Resource: of, Name: kind, Placing: placing}); ours {
			return true
		}
	}
	return false
}
