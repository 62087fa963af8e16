package custom

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
)

// kindOf is the kind of widgets with a schema, which is YAML.
func kindOf(t *testing.T, schema string) *kinds.Kind {
	t.Helper()
	crd := readCRD(t, "widgets")
	crd.Spec.Versions = crd.Spec.Versions[:1]
	v := &crd.Spec.Versions[0]
	v.Schema.OpenAPIV3Schema, v.Storage, v.Subresources, v.SelectableFields = &apiextensionsv1.JSONSchemaProps{}, true, nil, nil
	if err := yaml.UnmarshalStrict([]byte(schema), v.Schema.OpenAPIV3Schema); err != nil {
		t.Fatal(err)
	}
	return compile(t, newTestCompiler(t), crd)[0]
}

// widget is an object of widgets with a field more.
func widget(field string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","uid":"u"},` + field + `}`
}

// repeat is a list of JSON values that are all the same.
func repeat(n int, value string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
}

// allocated is how many bytes a function allocates. No other test runs meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// defaultBomb has a default of many items, which each have one of many fields.
func defaultBomb() string {
	return `{type: object, properties: {l: {type: array, items: {type: object, properties: {a: {type: array, default: ` + repeat(100, "{}") +
		`, items: {type: object, properties: {b: {type: string, default: ` + strings.Repeat("x", 100) + `}}}}}}}}}`
}

// TestDefaultsAreBounded: an object that would become too large by its defaults is decoded without
// them, whether it comes from a client or was stored before there were any, and its write is refused.
func TestDefaultsAreBounded(t *testing.T) {
	k := kindOf(t, defaultBomb())
	body := widget(`"l":` + repeat(5000, "{}"))
	for name, decode := range map[string]func() (*unstructured.Unstructured, error){
		"written": func() (*unstructured.Unstructured, error) { return decode(t, k, apiruntime.ContentTypeJSON, body, false) },
		"stored": func() (*unstructured.Unstructured, error) {
			o, err := apiruntime.Decode(k.StorageCodec, []byte(body))
			u, _ := o.(*unstructured.Unstructured)
			return u, err
		},
	} {
		var u *unstructured.Unstructured
		var err error
		if used := allocated(func() { u, err = decode() }); used > 32<<20 {
			t.Errorf("%s: %d bytes for an object of %d", name, used, len(body))
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, _, _ := unstructured.NestedSlice(u.Object, "l")
		if len(l) != 5000 || len(l[0].(map[string]any)) != 0 {
			t.Errorf("%s: got %d items, %v", name, len(l), l[0])
		}
		if err := k.Custom.CheckDefaults(u); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), `CRD "widgets.example.com"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if value, err := k.Custom.Today([]byte(body)); len(value) > len(body)+100 || err != nil {
		t.Errorf("got %d bytes, %v", len(value), err)
	}
	few, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":[{}]`), false)
	if err != nil || !strings.Contains(fmt.Sprint(few.Object), "a:[map[b:xxx") || k.Custom.CheckDefaults(few) != nil {
		t.Errorf("a small object has no defaults: %v, %v", few, err)
	}
}
