package read

import (
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Objects in the view of a location have the ownership metadata that an agent adds to them.
// Another client that creates them in a cluster can add it, too. It is not part of the rendered
// object, so it is neither stored nor hashed. Rendering removes such metadata written by users.

// ownership returns the ownership labels and annotations of a row's object of a kind.
func (l display) ownership(row *table.Row, kind string) (labels, annotations []field) {
	_, rest := restOf(row)
	namespace, name := key.SplitName(rest)
	labels = append(labels, field{v1alpha1.SpaceLabel, string(spaceOf(row))})
	if l.mark != "" {
		labels = append(labels, field{v1alpha1.LocationLabel, l.mark})
	}
	return labels, []field{
		{v1alpha1.SourceKindAnnotation, kind},
		{v1alpha1.SourceNamespaceAnnotation, namespace},
		{v1alpha1.SourceNameAnnotation, name},
		{v1alpha1.SourceUIDAnnotation, row.Meta.UID},
	}
}

// sameSource reports whether two rows' objects have the same ownership metadata in a view.
func sameSource(a, b *table.Row) bool { return a.Key == b.Key && a.Meta.UID == b.Meta.UID }

// markedLabels are an object's labels and the ownership labels that a view adds.
type markedLabels struct {
	labels.Labels
	space key.Space
	mark  string // of the location, from key.OwnershipMark
}

var _ labels.Labels = markedLabels{}

// Lookup returns the value of a label and whether it exists.
func (m markedLabels) Lookup(label string) (string, bool) {
	switch label {
	case v1alpha1.SpaceLabel:
		return string(m.space), true
	case v1alpha1.LocationLabel:
		return m.mark, m.mark != ""
	}
	return m.Labels.Lookup(label)
}

// Has reports whether a label exists.
func (m markedLabels) Has(label string) bool { _, ok := m.Lookup(label); return ok }

// Get returns the value of a label, or "".
func (m markedLabels) Get(label string) string { v, _ := m.Lookup(label); return v }
