package kinds

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
)

// errNoObject says that a value is not one JSON object.
var errNoObject = errors.New("not a JSON object")

// Travel returns what of a stored object goes to a location, as canonical JSON:
// compact, keys sorted, numbers as they were written. It is what the user
// wrote: without what the server set, without status, without what makes sense
// in one cluster only (owners, finalizers), and without what was said to
// Orrery rather than to the cluster.
//
// It depends on the bytes and on the resource alone, so it is the same for all
// versions of a resource. Two objects that mean the same to a location travel
// as the same bytes, so digests of the result can be compared.
func (k *Kind) Travel(value []byte) ([]byte, error) {
	if k.travels != nil {
		return k.travels.travel(value)
	}
	return customTravels[k.GVK.Group == v1alpha1.Group].travel(value)
}

// AnyCustom says how objects of CRDs travel, for those who do not have the CRD.
type AnyCustom struct{}

// Travel is Kind.Travel of whatever kind a CRD defines.
func (AnyCustom) Travel(value []byte) ([]byte, error) { return customTravels[false].travel(value) }

// customTravels is for kinds whose objects have no Go type, by whether they are
// Orrery's own. Their status stays behind whether or not the CRD has a status
// subresource: it may get one, or lose it.
var customTravels = map[bool]*filter{
	false: withMetadata(&filter{}, false, true),
	true:  withMetadata(&filter{}, true, true),
}

func (f *filter) travel(value []byte) ([]byte, error) {
	if !gjson.ValidBytes(value) {
		return nil, fmt.Errorf("find what travels: %w", errNoObject)
	}
	object := gjson.ParseBytes(value)
	if !object.IsObject() {
		return nil, fmt.Errorf("find what travels: %w", errNoObject)
	}
	return f.append(make([]byte, 0, len(value)), object), nil
}

// withMetadata adds to a filter what never travels, of whatever kind.
func withMetadata(f *filter, orrery, status bool) *filter {
	metadata := &filter{fields: map[string]*fieldFilter{}}
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
func withoutServerSpec(f *filter, r key.Resource) {
	if r == key.Namespaces {
		spec := &filter{fields: map[string]*fieldFilter{"finalizers": {drop: true}}}
		f.fields["spec"] = &fieldFilter{zero: []byte("{}"), inner: spec}
	}
}

// without drops names from a map, and the map when nothing is left of it.
func without(names []string) *fieldFilter {
	f := &fieldFilter{zero: []byte("{}"), inner: &filter{fields: map[string]*fieldFilter{}}}
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

// controlAnnotations are addressed to this hub, or were put there by it or by
// an upper hub's agent. v1alpha1.CascadeAnnotation is not among them: whether a
// namespace may go with its content is decided at the location, when the
// source may be gone already.
func controlAnnotations() []string {
	return []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		v1alpha1.AssignedLocationsAnnotation, v1alpha1.ReturnStatusAnnotation, v1alpha1.SpaceAnnotation,
		v1alpha1.ExpandAnnotation,
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation, v1alpha1.SourceUIDAnnotation,
		v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation,
	}
}

// markLabels are an upper hub's marks; this hub's agent puts its own.
func markLabels() []string { return []string{v1alpha1.LocationLabel, v1alpha1.SpaceLabel} }
