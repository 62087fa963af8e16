package custom

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/test/support/cost"
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
		"written": func() (*unstructured.Unstructured, error) {
			return decode(t, k, apiruntime.ContentTypeJSON, body, false)
		},
		"stored": func() (*unstructured.Unstructured, error) {
			o, err := apiruntime.Decode(k.StorageCodec, []byte(body))
			u, _ := o.(*unstructured.Unstructured)
			return u, err
		},
	} {
		var u *unstructured.Unstructured
		var err error
		if used := cost.Allocated(func() { u, err = decode() }); used > 32<<20 {
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

// costly are schemas of items that are small and multiply with the items of an object.
func costly() map[string]string {
	many := func(n int, each string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(each, i)
		}
		return strings.Join(all, ",")
	}
	return map[string]string{
		"branches": `{type: integer, anyOf: [` + many(1000, "{minimum: %d}") + `]}`,
		"enum":     `{type: integer, enum: [` + many(20_000, "%d") + `]}`,
		"fields":   `{x-kubernetes-preserve-unknown-fields: true, type: object, properties: {` + many(5000, "f%d: {type: string}") + `}}`,
		"required": `{type: object, x-kubernetes-preserve-unknown-fields: true, required: [` + many(5000, "f%d") + `]}`,
	}
}

// TestValidationIsBounded: an object that takes very many steps to be validated is refused before
// they are done. If it is stored, its metadata can be changed, and nothing else.
func TestValidationIsBounded(t *testing.T) {
	for name, items := range costly() {
		k := kindOf(t, `{type: object, properties: {l: {type: array, items: `+items+`}}}`)
		item := "1"
		if strings.Contains(items, "type: object") {
			item = "{}"
		}
		u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":`+repeat(2000, item)), false)
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		u.SetResourceVersion("1")
		ctx := request.WithNamespace(t.Context(), "default")
		s := k.Custom.Strategy()
		s.Validate(ctx, small(t, k)) // compiles it
		if used := cost.Allocated(func() {
			if errs := s.Validate(ctx, u); len(errs) != 1 || !strings.Contains(errs[0].Detail, "steps to be validated by CRD") {
				t.Errorf("%s: got %.300v", name, errs)
			}
		}); used > 1<<20 {
			t.Errorf("%s: %d bytes to refuse it", name, used)
		}
		labelled := u.DeepCopy()
		labelled.SetLabels(map[string]string{"a": "b"})
		if errs := s.ValidateUpdate(ctx, labelled, u); len(errs) > 0 {
			t.Errorf("%s: its labels can't be changed: %.300v", name, errs)
		}
		labelled.Object["more"] = "x"
		if errs := s.ValidateUpdate(ctx, labelled, u); len(errs) != 1 {
			t.Errorf("%s: its content can be changed: %.300v", name, errs)
		}
		ended, end := context.WithCancel(ctx)
		end()
		if errs := s.Validate(ended, u); len(errs) != 1 {
			t.Errorf("%s: a request that has ended: %.300v", name, errs)
		}
		if errs := s.Validate(ended, small(t, k)); len(errs) != 1 {
			t.Errorf("%s: a request that has ended, for an object that is right: %.300v", name, errs)
		}
	}
}

// small is an object without items.
func small(t *testing.T, k *kinds.Kind) *unstructured.Unstructured {
	t.Helper()
	u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":[]`), false)
	if err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("default")
	return u
}

// TestAnswersAreShort: an object that is wrong in very many places has an answer of some of them.
func TestAnswersAreShort(t *testing.T) {
	k := kindOf(t, `{type: object, properties: {l: {type: array, items: {type: string}}, s: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}`)
	u := small(t, k)
	var l, set []any
	for i := range 20_000 {
		l, set = append(l, int64(1)), append(set, int64(i/2))
	}
	u.Object["l"] = l
	ctx := request.WithNamespace(t.Context(), "default")
	if errs := k.Custom.Strategy().Validate(ctx, u); len(errs) != schemacost.MaxErrors+1 {
		t.Errorf("%d errors of types", len(errs))
	}
	u.Object["l"], u.Object["s"] = []any{}, set
	if errs := k.Custom.Strategy().Validate(ctx, u); len(errs) != maxErrors+1 || errs[0].Type != field.ErrorTypeDuplicate {
		t.Errorf("%d errors of duplicates", len(errs))
	}
}
