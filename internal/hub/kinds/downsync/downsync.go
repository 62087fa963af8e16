// Package downsync makes the form of a stored object that is sent to locations, as canonical JSON:
// compact, with sorted keys, and with numbers as they were written. It contains the fields that the
// user wrote. It omits the fields that the server sets, the status, fields that have a meaning only in
// one cluster (owners, finalizers), and fields that are meant for Orrery rather than for the cluster.
// Objects with the same meaning for a location have the same bytes, so content hashes of the result
// can be compared.
//
// It must depend only on the bytes and the resource: the result is the same for all versions of a
// resource, and at all times.
package downsync

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/internal/protocol/key"
)

// errNoObject is returned for a value that is not one JSON object.
var errNoObject = errors.New("not a JSON object")

// maxDepth is the maximum nesting of an object, as in encoding/json. The check of the syntax needs
// stack for each level.
const maxDepth = 10_000

// Filter returns the filter for the stored objects of a kind with a Go struct type. hasStatus reports
// whether the kind has a status that a server writes.
func (n Types) Filter(t reflect.Type, r key.Resource, hasStatus bool) *Filter {
	f := withMetadata(n.ofKind(t), false, hasStatus)
	withoutServerSpec(f, r)
	return f
}

// Custom returns the filter for objects of the kinds that CRDs define in a group. It does not need the
// CRD. It omits the status even if the CRD has no status subresource, since a later version of the CRD
// may have one.
func Custom(group string) *Filter { return customs[group == v1alpha1.Group] }

// customs contains a filter for Orrery's own kinds, and one for others.
var customs = map[bool]*Filter{
	false: withMetadata(&Filter{}, false, true),
	true:  withMetadata(&Filter{}, true, true),
}

// Travel returns the form of a stored object that is sent to locations, as canonical JSON.
func (f *Filter) Travel(value []byte) ([]byte, error) {
	if jsonscan.Deeper(value, maxDepth) {
		return nil, fmt.Errorf("prepare the object for locations: it is nested deeper than %d levels", maxDepth)
	}
	if !gjson.ValidBytes(value) || !gjson.ParseBytes(value).IsObject() {
		return nil, fmt.Errorf("prepare the object for locations: %w", errNoObject)
	}
	return f.append(make([]byte, 0, len(value)), value), nil
}

// withMetadata adds to a filter what never travels, of whatever kind.
func withMetadata(f *Filter, orrery, status bool) *Filter {
	metadata := &Filter{fields: map[string]*fieldFilter{}}
	for _, name := range localMetadata() {
		metadata.fields[name] = &fieldFilter{drop: true}
	}
	metadata.fields["annotations"] = without(controlAnnotations())
	labels := markLabels()
	if orrery {
		labels = append(labels, v1alpha1.ForLabel)
	}
	metadata.fields["labels"] = without(labels)
	if f.fields == nil {
		f.fields = map[string]*fieldFilter{}
	}
	f.fields["metadata"] = &fieldFilter{inner: metadata}
	if status {
		f.fields["status"] = &fieldFilter{drop: true}
	}
	return f
}

// withoutServerSpec adds what a server sets in the spec of a kind.
func withoutServerSpec(f *Filter, r key.Resource) {
	if r == key.Namespaces {
		spec := &Filter{fields: map[string]*fieldFilter{"finalizers": {drop: true}}}
		f.fields["spec"] = &fieldFilter{zero: []byte("{}"), inner: spec}
	}
}

// without drops names from a map, and the map when nothing is left of it.
func without(names []string) *fieldFilter {
	f := &fieldFilter{zero: []byte("{}"), inner: &Filter{fields: map[string]*fieldFilter{}}}
	for _, name := range names {
		f.inner.fields[name] = &fieldFilter{drop: true}
	}
	return f
}

// localMetadata is the metadata that belongs to one API server.
func localMetadata() []string {
	return []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers", "generateName",
	}
}

// controlAnnotations are addressed to this hub, or were set by it or by an upper hub's
// agent. v1alpha1.CascadeAnnotation and v1alpha1.RecreateAnnotation are among them, since they
// let a location delete what others have there: that takes a user of its cluster.
func controlAnnotations() []string {
	return []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		v1alpha1.AssignedLocationsAnnotation, v1alpha1.ReturnStatusAnnotation, v1alpha1.SpaceAnnotation,
		v1alpha1.ExpandAnnotation,
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation, v1alpha1.SourceUIDAnnotation,
		v1alpha1.OnRemoveAnnotation, v1alpha1.ServiceAccountAnnotation, v1alpha1.LogAnnotation,
		v1alpha1.TakenFromAnnotation, v1alpha1.ImpliedAnnotation,
		v1alpha1.CascadeAnnotation, v1alpha1.RecreateAnnotation,
	}
}

// markLabels are an upper hub's ownership marks; this hub's agent sets its own.
func markLabels() []string { return []string{v1alpha1.LocationLabel, v1alpha1.SpaceLabel} }
