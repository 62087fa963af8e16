package read

import (
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Objects in a location's view name their source by the ownership marks that an agent adds
// to them, so that another client that creates them at a cluster can do the same. Marks are
// neither stored nor in any digest, since they are not part of the rendered object; what
// users write under their names does not travel.

// marks are the ownership marks of a row's object of a kind.
func (l look) marks(row *table.Row, kind string) (labels, annotations []field) {
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

// sameSource says that two rows' objects have the same marks in a view.
func sameSource(a, b *table.Row) bool { return a.Key == b.Key && a.Meta.UID == b.Meta.UID }

// markedLabels are an object's labels with those that a view adds.
type markedLabels struct {
	labels.Labels
	space key.Space
	mark  string // of the location, as key.OwnershipMark has it
}

var _ labels.Labels = markedLabels{}

// Lookup returns the value of a label and whether it is there.
func (m markedLabels) Lookup(label string) (string, bool) {
	switch label {
	case v1alpha1.SpaceLabel:
		return string(m.space), true
	case v1alpha1.LocationLabel:
		return m.mark, m.mark != ""
	}
	return m.Labels.Lookup(label)
}

// Has says whether a label is there.
func (m markedLabels) Has(label string) bool { _, ok := m.Lookup(label); return ok }

// Get returns the value of a label, "" if it is not there.
func (m markedLabels) Get(label string) string { v, _ := m.Lookup(label); return v }
