package textual_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestSplice: an update in a textual context changes the fields that differ, and keeps the bytes of all
// others, for kinds with a schema and for those that are Go types.
func TestSplice(t *testing.T) {
	all, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ resource, stored, change, want string }{
		{"placements.orrery.dev",
			`{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"x","newer":1e2},"spec":{"newer":[1.0],"locations":[{"names":["a"]}]},"newer":{}}`,
			"",
			`{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"finalizers":["f"],"name":"x","newer":1e2},"spec":{"newer":[1.0],"locations":[{"names":["a"]}]},"newer":{},"status":{"objects":1}}`},
		{"configmaps",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","finalizers":["f"],"newer":1e2},"newer":{},"data":{"a":"b"}}` + "\n",
			`{"metadata":{"finalizers":[]}}`,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","newer":1e2},"newer":{},"data":{"a":"b"}}` + "\n"},
		{"configmaps",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","newer":1e2},"data":{"a":"b"}}`,
			`{}`,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","newer":1e2},"data":{"a":"b"}}`},
	} {
		kind, ok := all.Builtin(key.Root).ForStorage(resourceOf(c.resource))
		if !ok {
			t.Fatalf("no kind %s", c.resource)
		}
		decoded, err := runtime.Decode(kind.StorageCodec, []byte(c.stored))
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := decoded.(*unstructured.Unstructured); ok {
			u.SetFinalizers([]string{"f"})
			u.Object["status"] = map[string]any{"objects": int64(1)}
		} else if err := json.Unmarshal([]byte(c.change), decoded); err != nil {
			t.Fatal(err)
		}
		value, err := runtime.Encode(kind.StorageCodec, decoded)
		if err != nil {
			t.Fatal(err)
		}
		ctx := textual.With(t.Context(), kind)
		got, same, err := textual.Splice(ctx, []byte(c.stored), value)
		if err != nil || string(got) != c.want || same != (c.stored == c.want) {
			t.Errorf("%s: %s, %v, %v, want %s", c.resource, got, same, err, c.want)
		}
		if got, same, err := textual.Splice(t.Context(), []byte(c.stored), value); err != nil || same || string(got) != string(value) || textual.Is(t.Context()) || !textual.Is(ctx) {
			t.Errorf("%s, not textual: %s, %v, %v", c.resource, got, same, err)
		}
	}
}

func resourceOf(name string) key.Resource {
	if name == "configmaps" {
		return key.ConfigMaps
	}
	return key.Placements
}
