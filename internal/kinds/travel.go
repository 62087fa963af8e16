package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
)

// Travel returns what of a stored object goes to a location, as canonical JSON:
// compact, keys sorted, numbers as they were written. It is what the user
// wrote: without what the server set, without status, without what makes sense
// in one cluster only (owners, finalizers), and without what was said to
// Orrery rather than to the cluster.
//
// Two objects that mean the same to a location travel as the same bytes, so
// digests of the result can be compared.
func (k *Kind) Travel(value []byte) ([]byte, error) {
	var object map[string]any
	if err := decodeExact(value, &object); err != nil {
		return nil, fmt.Errorf("decode %s to travel: %w", k.GVK.Kind, err)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		k.stripMetadata(metadata)
	}
	if k.HasStatus {
		delete(object, "status")
	}
	if spec, ok := object["spec"].(map[string]any); ok && k.Resource == key.Namespaces {
		delete(spec, "finalizers") // set and removed by the server only
	}
	k.noise.clean(object)
	canonical, err := encodeExact(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s to travel: %w", k.GVK.Kind, err)
	}
	return canonical, nil
}

func (k *Kind) stripMetadata(metadata map[string]any) {
	for _, name := range localMetadata() {
		delete(metadata, name)
	}
	stripMap(metadata, "annotations", controlAnnotations())
	stripMap(metadata, "labels", markLabels())
	if k.GVK.Group == v1alpha1.Group {
		stripMap(metadata, "labels", []string{v1alpha1.ForLabel})
	}
}

// stripMap removes names from a map, and the map when nothing is left of it.
func stripMap(metadata map[string]any, field string, names []string) {
	values, ok := metadata[field].(map[string]any)
	if !ok {
		return
	}
	for _, name := range names {
		delete(values, name)
	}
	if len(values) == 0 {
		delete(metadata, field)
	}
}

// localMetadata is the metadata that belongs to one API server.
func localMetadata() []string {
	return []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers", "generateName",
	}
}

// controlAnnotations are addressed to this hub, or were put there by it or by
// an upper hub's agent. orrery.dev/cascade is not among them: whether a
// namespace may go with its content is decided at the location, when the
// source may be gone already.
func controlAnnotations() []string {
	return []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		v1alpha1.AssignedLocationsAnnotation, v1alpha1.ReturnStatusAnnotation, v1alpha1.SpaceAnnotation,
		"orrery.dev/expand",
		"orrery.dev/source-kind", "orrery.dev/source-namespace", "orrery.dev/source-name", "orrery.dev/source-uid",
	}
}

// markLabels are an upper hub's marks; this hub's agent puts its own.
func markLabels() []string { return []string{"orrery.dev/location", "orrery.dev/space"} }

// decodeExact keeps numbers as they are written.
func decodeExact(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

func encodeExact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
