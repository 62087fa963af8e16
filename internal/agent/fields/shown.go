package fields

import (
	"encoding/json"
	"fmt"
	"maps"

	"orrery.dev/orrery/internal/lib/fieldset"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// lastApplied is the annotation in which kubectl keeps a copy of an applied object, with the values of a Secret.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// unshown is metadata that only the API server uses.
var unshown = []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink", "uid"}

// Owned returns the set of fields that the location's manager has applied in any of several states of an object.
func Owned(l ownership.Owner, states ...*ownership.Meta) (*fieldpath.Set, error) {
	all := fieldpath.NewSet()
	for _, m := range states {
		set, err := owned(m, l)
		if err != nil {
			return nil, err
		}
		all = all.Union(set)
	}
	return all, nil
}

// Shown returns an object without its status and the metadata that only the API server uses. If only is not nil,
// it returns only the fields of that set.
func Shown(text []byte, only *fieldpath.Set) (map[string]any, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	delete(object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	for _, name := range unshown {
		delete(metadata, name)
	}
	if only == nil {
		return object, nil
	}
	selected, _ := fieldset.Select(object, only).(map[string]any)
	if selected == nil {
		selected = map[string]any{}
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if v, ok := object[name]; ok {
			selected[name] = v
		}
	}
	return selected, nil
}

// Mask replaces the values of a Secret, in two states of which either may be nil. Equal values stay equal, and
// different values stay different.
func Mask(before, after map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		maskAll(before, after, field)
	}
	oldMetadata, _ := before["metadata"].(map[string]any)
	is, _ := after["metadata"].(map[string]any)
	for _, m := range []map[string]any{oldMetadata, is} {
		if annotations, ok := m["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
}

// maskAll masks all values of a field. A field that is not a map, which only a broken server returns, is masked
// as a whole.
func maskAll(before, after map[string]any, field string) {
	oldValues, wasMap := before[field].(map[string]any)
	is, isMap := after[field].(map[string]any)
	for _, side := range []struct {
		object map[string]any
		may    bool
	}{{before, wasMap}, {after, isMap}} {
		if v, ok := side.object[field]; ok && v != nil && !side.may {
			side.object[field] = wire.Masked
		}
	}
	names := map[string]bool{}
	for _, m := range []map[string]any{oldValues, is} {
		for name := range maps.Keys(m) {
			names[name] = true
		}
	}
	for name := range names {
		x, inWas := oldValues[name]
		y, inIs := is[name]
		masks := [2]string{wire.Masked, wire.Masked}
		if inWas && inIs && !value.Equals(value.NewValueInterface(x), value.NewValueInterface(y)) {
			masks = [2]string{wire.MaskedBefore, wire.MaskedAfter}
		}
		if inWas {
			oldValues[name] = masks[0]
		}
		if inIs {
			is[name] = masks[1]
		}
	}
}

// Encode returns the JSON of an object that Shown returned; nil if there is none.
func Encode(object map[string]any) (json.RawMessage, error) {
	if object == nil {
		return nil, nil
	}
	b, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	return b, nil
}
