package mapper

import (
	"bytes"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/apis/v1alpha1"
)

// made says whether what the API server has noted proves that the agent made the
// object, though its marks are gone and nothing is recorded of it: an agent may be
// killed right after it made something.
//
// Who makes an object may bring managed fields along, as a backup does, or give it
// some later: that there are some of ours says nothing. But the time noted with
// ours is that of our last write. It is the time when the object was made if we
// made it; in a copy it is that of our write to the original, which is earlier,
// unless the original was written in the very second of the copy. Then it takes
// two requests to copy it so that nobody but us owns what is in it: whoever makes
// an object with managed fields owns all of it, too. An object that was made across
// the end of a second is not known by this, and stays a conflict.
func (m *objectMeta) made(l identity, kind string) bool {
	born, err := time.Parse(time.RFC3339, m.CreationTimestamp)
	if err != nil || m.controlled() || !m.mayBe(l, kind) {
		return false
	}
	mine, others := &fieldpath.Set{}, &fieldpath.Set{}
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if f.Subresource != "" || f.Manager == releasedManager {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1)); err != nil {
			return false
		}
		if !f.appliedBy(l.manager()) {
			others = others.Union(set)
			continue
		}
		wrote, err := time.Parse(time.RFC3339, f.Time)
		if err != nil || !wrote.Equal(born) {
			return false
		}
		mine = set.Leaves()
	}
	return !mine.Empty() && mine.Intersection(others).Empty()
}

// mayBe says that what is left of the marks does not speak against the object's
// being the agent's.
func (m *objectMeta) mayBe(l identity, kind string) bool {
	if label, ok := m.Labels[locationLabel]; ok && label != string(l) {
		return false
	}
	for name, want := range map[string]string{
		v1alpha1.SourceKindAnnotation: kind, v1alpha1.SourceNamespaceAnnotation: m.Namespace, v1alpha1.SourceNameAnnotation: m.Name,
	} {
		if got, ok := m.Annotations[name]; ok && got != want {
			return false
		}
	}
	return true
}
