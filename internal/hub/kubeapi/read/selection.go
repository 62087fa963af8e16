package read

import (
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// selection is what label and field selectors ask of an object.
type selection struct {
	labels labels.Selector // nil: everything
	fields fields.Selector // nil: everything
}

// selecting takes the selectors from a request, and moves what they say of namespace and
// name into the query, so that no more rows than necessary are read.
func (q query) selecting(opts *metainternalversion.ListOptions) (query, selection) {
	var s selection
	if opts.LabelSelector != nil && !opts.LabelSelector.Empty() {
		s.labels = opts.LabelSelector
	}
	if opts.FieldSelector == nil || opts.FieldSelector.Empty() {
		return q, s
	}
	s.fields = opts.FieldSelector
	if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok && name != "" {
		q.name = name
	}
	if namespace, ok := s.fields.RequiresExactMatch("metadata.namespace"); ok && q.namespaced && q.namespace == "" {
		q.namespace = namespace
	}
	return q, s
}

func (s selection) everything() bool { return s.labels == nil && s.fields == nil }

// selects says whether an object is selected as a view shows it.
func (r *reader) selects(s selection, row *table.Row) bool {
	if s.everything() {
		return true
	}
	if r.look.reports {
		return r.selectsReported(s, row)
	}
	l, value, of := r.look, row.Value, row.Meta.Labels
	if l.at != "" && (s.fields != nil || marked(of) || classAt(row, l.at) != nil) {
		made, err := r.rendered(row)
		if err != nil {
			return false
		}
		value, of = made.Object, table.NewEntry(row.Key, made.Object, 0, 0).Meta.Labels
	}
	var shown labels.Labels = of
	if l.at != "" {
		shown = markedLabels{of, spaceOf(row), l.mark}
	}
	if s.labels != nil && !s.labels.Matches(shown) {
		return false
	}
	if s.fields == nil {
		return true
	}
	f := fieldsOf{kind: r.kind, value: func() []byte { return value }}
	f.namespace, f.name = l.called(row)
	return s.fields.Matches(&f)
}

// marked says whether there may be labels that rendering removes.
func marked(l table.Labels) bool {
	for _, label := range l {
		if strings.HasPrefix(label.Key, "orrery.dev/") {
			return true
		}
	}
	return false
}

// fieldsOf are the fields of an object by which it can be selected. They are extracted only if
// a selector needs one that is not in its name.
type fieldsOf struct {
	kind            *kinds.Kind
	namespace, name string
	value           func() []byte
	set             fields.Set
}

// Has says that every field is there: other fields are refused before.
func (f *fieldsOf) Has(field string) bool { return true }

// Get is the value of a field, "" if the object does not have it.
func (f *fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.name
	case "metadata.namespace":
		return f.namespace
	}
	if f.set == nil {
		f.set = f.kind.StoredFields(f.value())
	}
	return f.set[field]
}
