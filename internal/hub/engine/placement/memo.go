package placement

import (
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxNamespaces bounds the namespaces whose labels a memo holds. Beyond that, it drops all.
const maxNamespaces = 1 << 14

// memo caches the matches of labels in one step. It is valid for one state. A nil memo caches
// nothing.
type memo struct {
	// objects and inNamespaces cache matches of the labels of objects and of namespaces.
	objects, inNamespaces selectors.Memo
	namespaces            map[namespaceAt]labelled
}

// namespaceAt is a namespace of a space.
type namespaceAt struct {
	space key.Space
	name  string
}

// labelled are the labels of a namespace, if it exists.
type labelled struct {
	labels table.Labels
	exists bool
}

// requirements returns how many requirements of selectors were evaluated.
func (m *memo) requirements() int { return m.objects.Steps() + m.inNamespaces.Steps() }

// objectMatches reports whether any of some selectors matches the labels of an object.
func (m *memo) objectMatches(list []*selectors.Selector, l table.Labels) bool {
	if m == nil {
		return selectors.AnyMatches(nil, list, l)
	}
	return selectors.AnyMatches(&m.objects, list, l)
}

// namespaceMatches reports whether any of some selectors matches the labels of a namespace.
func (m *memo) namespaceMatches(list []*selectors.Selector, l table.Labels) bool {
	if m == nil {
		return selectors.AnyMatches(nil, list, l)
	}
	return selectors.AnyMatches(&m.inNamespaces, list, l)
}

// namespaceLabels returns the labels of a namespace in the memo's state; ok is false if the space
// has no such namespace.
func (m *memo) namespaceLabels(state table.Reader, name namespaceAt) (l table.Labels, ok bool) {
	if m != nil {
		if is, known := m.namespaces[name]; known {
			return is.labels, is.exists
		}
	}
	row := state.Get(key.Object{Space: name.space, Identity: key.Identity{Resource: key.Namespaces, Name: name.name}}.Key())
	var is labelled
	if row != nil {
		is = labelled{row.Meta.Labels, true}
	}
	if m != nil {
		if m.namespaces == nil {
			m.namespaces = map[namespaceAt]labelled{}
		}
		if len(m.namespaces) >= maxNamespaces {
			clear(m.namespaces)
		}
		m.namespaces[name] = is
	}
	return is.labels, is.exists
}
