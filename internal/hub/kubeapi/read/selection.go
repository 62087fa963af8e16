package read

import (
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// selection consists of the label and field selectors of a request.
type selection struct {
	labels labels.Selector // nil: everything
	fields fields.Selector // nil: everything
}

// selecting takes the selectors from a request. Exact namespaces and names move into the query, so
// that no more rows than necessary are read.
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

// marked reports whether there may be labels that rendering removes.
func marked(l table.Labels) bool {
	for _, label := range l {
		if strings.HasPrefix(label.Key, "orrery.dev/") {
			return true
		}
	}
	return false
}

// fieldsOf are the fields of an object for field selectors. They are extracted only if a selector
// needs a field other than namespace and name.
type fieldsOf struct {
	kind            *kinds.Kind
	namespace, name string
	value           func() []byte
	set             fields.Set
}

// Has returns true: requests with unknown fields fail before.
func (f *fieldsOf) Has(field string) bool { return true }

// Get returns the value of a field, or "".
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
