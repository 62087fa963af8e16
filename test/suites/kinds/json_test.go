package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// decode keeps numbers as they are written.
func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	return v
}

// encode sorts keys and escapes nothing that need not be.
func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// valueAt returns the value at a path of field names; nil if there is none.
func valueAt(object map[string]any, path ...string) any {
	var v any = object
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// with returns an object with a value at a path, made from a copy of the maps on
// the way.
func with(object map[string]any, value any, path ...string) map[string]any {
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	if len(path) == 1 {
		object[path[0]] = value
		return object
	}
	inner, _ := object[path[0]].(map[string]any) // made if it is missing
	object[path[0]] = with(inner, value, path[1:]...)
	return object
}

// lacks is the path of the first value of want that got does not have; "" if it has all
// of them. Lists are compared as far as want's go.
func lacks(want, got any, path string) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", path, got)
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if _, ok := have[k]; !ok {
				return fmt.Sprintf("%s.%s is missing, want %v", path, k, want[k])
			}
			if d := lacks(want[k], have[k], path+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) < len(want) {
			return fmt.Sprintf("%s is %v, want %v", path, got, want)
		}
		for i := range want {
			if d := lacks(want[i], have[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s is %v, want %v", path, got, want)
	}
	return ""
}
