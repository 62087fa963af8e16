package custom

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
)

var widgetsV1 = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// sharedCompiler is for the tests that do not depend on what is compiled already.
var sharedCompiler = sync.OnceValues(func() (*Compiler, error) { return NewCompiler(DefaultLimits()) })

func newTestCompiler(t *testing.T) *Compiler {
	t.Helper()
	c, err := sharedCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readCRD(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func compile(t *testing.T, c *Compiler, crd *apiextensionsv1.CustomResourceDefinition) []*kinds.Kind {
	t.Helper()
	d, err := c.Compile(crd)
	if err != nil {
		t.Fatal(err)
	}
	return d.Kinds()
}

func definitionOf(k *kinds.Kind) *Definition { return k.Custom.(version).def }

// decode reads a request's body as handlers do.
func decode(t *testing.T, k *kinds.Kind, mediaType, body string, strict bool) (*unstructured.Unstructured, error) {
	t.Helper()
	s := k.Scope("").Serializer
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %q", mediaType)
	}
	decoder := info.Serializer
	if strict {
		decoder = info.StrictSerializer
	}
	gvk := k.GVK
	o, _, err := s.DecoderToVersion(decoder, gvk.GroupVersion()).Decode([]byte(body), &gvk, k.New())
	u, _ := o.(*unstructured.Unstructured)
	return u, err
}

func TestDecodingCoercesToTheSchema(t *testing.T) {
	k := compile(t, newTestCompiler(t), readCRD(t, "widgets"))[0]
	const body = `{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": {"name": "w", "colour": "?"},
		"spec": {"size": 3, "sise": 4, "parts": [{"name": "a", "x": {}}]}, "extra": true}`
	check := func(u *unstructured.Unstructured) {
		t.Helper()
		want := `map[apiVersion:example.com/v1 kind:Widget metadata:map[name:w] ` +
			`spec:map[colour:red parts:[map[count:1 name:a]] size:3]]`
		if got := fmt.Sprint(u.Object); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	t.Run("ignore", func(t *testing.T) {
		u, err := decode(t, k, runtime.ContentTypeJSON, body, false)
		if err != nil {
			t.Fatal(err)
		}
		check(u)
	})
	t.Run("yaml", func(t *testing.T) {
		data, err := yaml.JSONToYAML([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		u, err := decode(t, k, runtime.ContentTypeYAML, string(data), false)
		if err != nil {
			t.Fatal(err)
		}
		check(u)
	})
	// Handlers refuse or warn of what a strict decoder complains about; to warn
	// they need the object, too.
	t.Run("strict", func(t *testing.T) {
		u, err := decode(t, k, runtime.ContentTypeJSON, strings.Replace(body, `"size": 3`, `"size": 2, "size": 3`, 1), true)
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		got := fmt.Sprint(strict.Errors())
		for _, path := range []string{`duplicate field "spec.size"`, `"metadata.colour"`, `"spec.sise"`, `"spec.parts[0].x"`, `"extra"`} {
			if !strings.Contains(got, path) {
				t.Errorf("no complaint about %s in %s", path, got)
			}
		}
		check(u)
	})
	t.Run("strict and clean", func(t *testing.T) {
		if _, err := decode(t, k, runtime.ContentTypeJSON,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}`, true); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("preserving version", func(t *testing.T) {
		old := compile(t, newTestCompiler(t), readCRD(t, "widgets"))[1]
		u, err := decode(t, old, runtime.ContentTypeJSON,
			`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"w"},"any":{"thing":1}}`, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := unstructured.NestedInt64(u.Object, "any", "thing"); !ok {
			t.Errorf("got %v", u.Object)
		}
	})
}

func TestValidation(t *testing.T) {
	c := newTestCompiler(t)
	k := compile(t, c, readCRD(t, "widgets"))[0]
	ctx := request.WithNamespace(context.Background(), "default")
	widget := func(spec string) *unstructured.Unstructured {
		u, err := decode(t, k, runtime.ContentTypeJSON,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default"},"spec":`+spec+`}`, false)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, test := range []struct {
		name, spec, want string
	}{
		{"valid", `{"size": 3}`, ""},
		{"rule kept", `{"size": 30, "colour": "grey"}`, ""},
		{"rule broken", `{"size": 30}`, "large widgets are grey"},
		{"type", `{"size": "three"}`, "must be of type integer"},
		{"minimum", `{"size": -1}`, "greater than or equal to 0"},
		{"list map", `{"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}`, "Duplicate value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := k.Custom.Strategy().Validate(ctx, widget(test.spec))
			checkErrors(t, errs, test.want)
		})
	}
	t.Run("wrong before and unchanged", func(t *testing.T) {
		const wrong = `{"size": 30, "colour": "red"}`
		checkErrors(t, k.Custom.Strategy().ValidateUpdate(ctx, withVersion(widget(wrong)), withVersion(widget(wrong))), "")
	})
	t.Run("status alone", func(t *testing.T) {
		old, next := withVersion(widget(`{"size": 1}`)), withVersion(widget(`{"size": 2}`))
		next.Object["status"] = map[string]any{"size": "large"}
		k.Custom.StatusStrategy().PrepareForUpdate(ctx, next, old)
		if size, _, _ := unstructured.NestedInt64(next.Object, "spec", "size"); size != 1 {
			t.Errorf("spec changed: %v", next.Object)
		}
		checkErrors(t, k.Custom.StatusStrategy().ValidateUpdate(ctx, next, old), "must be of type integer")
	})
	t.Run("generation", func(t *testing.T) {
		old, next := withVersion(widget(`{"size": 1}`)), withVersion(widget(`{"size": 2}`))
		old.SetGeneration(4)
		next.SetGeneration(4)
		next.Object["status"] = map[string]any{"size": int64(2)}
		k.Custom.Strategy().PrepareForUpdate(ctx, next, old)
		if next.GetGeneration() != 5 || next.Object["status"] != nil {
			t.Errorf("got %v", next.Object)
		}
	})
	t.Run("two spaces, two meanings", func(t *testing.T) {
		other := compile(t, c, readCRD(t, "widgets-other"))[0]
		u, err := decode(t, other, runtime.ContentTypeJSON, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":"small"}}`, true)
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, other.Custom.Strategy().Validate(context.Background(), u), "")
		u.SetNamespace("default")
		checkErrors(t, k.Custom.Strategy().Validate(ctx, u), "must be of type integer")
	})
}

func withVersion(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetResourceVersion("1")
	return u
}

func checkErrors(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) > 0:
		t.Errorf("got %v", errs)
	case want != "" && !strings.Contains(fmt.Sprint(errs), want):
		t.Errorf("got %v, want %q", errs, want)
	}
}

// A stored object is read by today's schemas: first by that of the version in which it
// was written, then by that of the version that is asked for.
func TestStorageReadsByTodaysSchema(t *testing.T) {
	all := compile(t, newTestCompiler(t), readCRD(t, "widgets"))
	v1, beta := all[0], all[1]
	const head, w = `{"apiVersion":"example.com/`, `","kind":"Widget","metadata":{"name":"w"}`
	for _, test := range []struct {
		name, stored string
		kind         *kinds.Kind
		want, again  string
	}{
		{"as it was written", `v1` + w + `}`, v1, `v1` + w + `}`, `v1` + w + `}`},
		{"default and unknown", `v1` + w + `,"old":1,"spec":{"parts":[{"name":"a","old":1}]}}`, v1,
			`v1` + w + `,"spec":{"colour":"red","parts":[{"count":1,"name":"a"}]}}`, `v1` + w + `,"spec":{"colour":"red","parts":[{"count":1,"name":"a"}]}}`},
		{"through another version", `v1` + w + `,"old":1,"spec":{}}`, beta, `v1beta1` + w + `,"spec":{"colour":"red"}}`, `v1` + w + `,"spec":{"colour":"red"}}`},
		{"stored at another version", `v1beta1` + w + `,"other":1,"spec":{}}`, v1, `v1` + w + `,"spec":{}}`, `v1` + w + `,"spec":{}}`},
		{"kept by a version that keeps all", `v1beta1` + w + `,"other":1}`, beta, `v1beta1` + w + `,"other":1}`, `v1` + w + `}`},
		{"stored at a version that is gone", `v1alpha1` + w + `,"other":1,"spec":{}}`, v1, `v1` + w + `,"spec":{"colour":"red"}}`, `v1` + w + `,"spec":{"colour":"red"}}`},
		{"conditions that the status lacks", `v1` + w + `,"status":{"conditions":[{"status":"True","type":"Reconciling"}],"size":1}}`, v1,
			`v1` + w + `,"status":{"conditions":[{"status":"True","type":"Reconciling"}],"size":1}}`, `v1` + w + `,"status":{"conditions":[{"status":"True","type":"Reconciling"}],"size":1}}`},
		{"malformed metadata", `v1","kind":"Widget","metadata":{"labels":{"a":1},"name":"w"}}`, v1, `v1` + w + `}`, `v1` + w + `}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, _, err := test.kind.StorageCodec.Decode([]byte(head+test.stored), nil, test.kind.New())
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := runtime.Encode(unstructured.UnstructuredJSONScheme, o); string(got) != head+test.want+"\n" {
				t.Errorf("read\n%swant\n%s", got, head+test.want)
			}
			written, err := runtime.Encode(test.kind.StorageCodec, o)
			if err != nil || string(written) != head+test.again+"\n" {
				t.Errorf("written again, %v:\n%swant\n%s", err, written, head+test.again)
			}
			if got := o.GetObjectKind().GroupVersionKind(); got != test.kind.GVK {
				t.Errorf("encoding changed %v to %v", test.kind.GVK, got)
			}
			today, err := test.kind.Custom.Today([]byte(head + test.stored + "\n"))
			if err != nil || (today == nil) != (test.stored == test.want) || today != nil && string(today) != head+test.want+"\n" {
				t.Errorf("today: %v %s", err, today)
			}
		})
	}
	if !v1.StoredAsServed() || beta.StoredAsServed() {
		t.Error("v1 is stored, v1beta1 is not")
	}
}

func TestConversionIsByName(t *testing.T) {
	all := compile(t, newTestCompiler(t), readCRD(t, "widgets"))
	o := all[0].New().(*unstructured.Unstructured)
	o.SetName("w")
	got, err := all[0].Scope("").Convertor.ConvertToVersion(o, all[1].GVK.GroupVersion())
	if err != nil {
		t.Fatal(err)
	}
	if got.GetObjectKind().GroupVersionKind() != all[1].GVK || o.GroupVersionKind() != all[0].GVK {
		t.Errorf("got %v of %v", got, o)
	}
}

func TestKindOfCRD(t *testing.T) {
	all := compile(t, newTestCompiler(t), readCRD(t, "widgets"))
	if len(all) != 2 {
		t.Fatalf("got %d kinds", len(all))
	}
	k := all[0]
	if k.GVR != widgetsV1 || !k.Namespaced || !k.HasStatus || k.Scale == nil || k.Scale.SpecReplicasPath != ".spec.size" {
		t.Errorf("got %+v", k)
	}
	if all[1].HasStatus || all[1].Scale != nil || all[1].Scope(kinds.StatusSubresource) != nil {
		t.Errorf("v1beta1 has subresources: %+v", all[1])
	}
	if got := all[1].Custom.Warnings(); len(got) != 1 || got[0] != "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget" {
		t.Errorf("got %q", got)
	}
	u, err := decode(t, k, runtime.ContentTypeJSON, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}`, false)
	if err != nil {
		t.Fatal(err)
	}
	table, err := k.Columns.ConvertToTable(context.Background(), u, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(table.Rows[0].Cells); got != "[w 3 red]" {
		t.Errorf("got %s", got)
	}
	_, fields, err := k.SelectableFields(u)
	if err != nil {
		t.Fatal(err)
	}
	if fields["spec.colour"] != "red" {
		t.Errorf("got %v", fields)
	}
	if _, _, err := k.Scope("").Convertor.ConvertFieldLabel(k.GVK, "spec.colour", "red"); err != nil {
		t.Error(err)
	}
	if _, _, err := k.Scope("").Convertor.ConvertFieldLabel(k.GVK, "spec.size", "3"); err == nil {
		t.Error("selectable by what the CRD does not name")
	}
}

// TestApply merges by the list keys of the schema, and across versions.
func TestApply(t *testing.T) {
	k := compile(t, newTestCompiler(t), readCRD(t, "widgets"))[0]
	manager := k.Scope("").FieldManager
	apply := func(live runtime.Object, who, spec string) (runtime.Object, error) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: default}, spec: `+spec+`}`), &u.Object); err != nil {
			t.Fatal(err)
		}
		return manager.Apply(live, u, who, false)
	}
	live, err := apply(k.New(), "one", `{size: 1, parts: [{name: a}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if live, err = apply(live, "two", `{parts: [{name: b, count: 2}]}`); err != nil {
		t.Fatal(err)
	}
	merged, _, _ := unstructured.NestedSlice(live.(*unstructured.Unstructured).Object, "spec", "parts")
	if got := fmt.Sprint(merged); got != "[map[count:1 name:a] map[count:2 name:b]]" {
		t.Errorf("got %s", got)
	}
	if _, err := apply(live, "two", `{size: 2}`); err == nil {
		t.Error("no conflict")
	}
	if _, err := apply(live, "two", `{sise: 2}`); err == nil {
		t.Error("an unknown field was applied")
	}
}
