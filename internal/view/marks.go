package view

import (
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Objects in a location's view name their source by the marks that an agent gives
// to what it makes of them: whoever makes them at a cluster can tell there what they
// are of. They are not stored, and in no digest, since they are no part of what
// locations get; what users wrote under these names does not travel.

// marks are those of a row's object of a kind.
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

// markedLabels are labels with those that a view adds.
type markedLabels struct {
	labels.Labels
	space, location string
}

var _ labels.Labels = markedLabels{}

// Lookup returns the value of a label and whether it is there.
func (m markedLabels) Lookup(label string) (string, bool) {
	switch label {
	case v1alpha1.SpaceLabel:
		return m.space, true
	case v1alpha1.LocationLabel:
		return m.location, m.location != ""
	}
	return m.Labels.Lookup(label)
}

// Has says whether a label is there.
func (m markedLabels) Has(label string) bool { _, ok := m.Lookup(label); return ok }

// Get returns the value of a label, "" if it is not there.
func (m markedLabels) Get(label string) string { v, _ := m.Lookup(label); return v }
