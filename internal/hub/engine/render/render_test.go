package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

var builtins = sync.OnceValue(func() *kinds.Catalog {
	r, err := registry.New()
	if err != nil {
		panic(err)
	}
	return r.Builtin(key.Root)
})

// counted renders by rules that put the inputs behind the object, and counts that.
type counted struct {
	*Renderer
	made atomic.Int64
}

func newCounted() *counted {
	c := &counted{Renderer: New(builtins())}
	c.Follow = func(object []byte, inputs []placement.Input) ([]byte, error) {
		c.made.Add(1)
		if inputs[0].Rules == "broken" {
			return nil, errors.New("no such field")
		}
		return fmt.Appendf(nil, `[%s,%q]`, object, inputs[0].Needs), nil
	}
	return c
}

func class(needs string) *placement.Class {
	return &placement.Class{Inputs: []placement.Input{{Rules: "r", Needs: needs}}}
}

func entry(name, data string) *table.Entry {
	o := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: name}}
	return table.NewEntry(o.Key(), fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":"u","resourceVersion":"7"},"data":{"k":%q}}`, name, data), 1, 1)
}

// want is what counted makes of what entry has, written down.
func want(name, data string, c *placement.Class) string {
	text := fmt.Sprintf(`{"data":{"k":%q},"metadata":{"name":%q}}`, data, name)
	if c != nil {
		text = fmt.Sprintf(`[%s,%q]`, text, c.Inputs[0].Needs)
	}
	return text
}

// A thousand locations of a class cost one rendering, also if they all ask at once; each
// class gets its own.
func TestOneRenderingForAClass(t *testing.T) {
	r, e := newCounted(), entry("x", "1")
	a, b := class("a"), class("b")
	var group sync.WaitGroup
	for i := range 1000 {
		group.Go(func() {
			c := []*placement.Class{a, b, nil}[i%3]
			made, err := r.Render(e, c)
			sum, err2 := r.Digest(e, c)
			if err := errors.Join(err, err2); err != nil {
				t.Error(err)
			}
			if text := want("x", "1", c); string(made.Object) != text || made.Digest != wire.SumOf([]byte(text)) || sum != made.Digest {
				t.Errorf("%s gets %s", c, made.Object)
			}
		})
	}
	group.Wait()
	if n := r.made.Load(); n != 2 {
		t.Errorf("two classes were rendered %d times", n)
	}
}

// An object that can't be rendered for a class is not tried again for each of its
// locations, and other classes are not affected.
func TestErrorsAreResults(t *testing.T) {
	r, e := newCounted(), entry("x", "1")
	broken := &placement.Class{Inputs: []placement.Input{{Rules: "broken"}}}
	for range 10 {
		if _, err := r.Digest(e, broken); err == nil || !strings.Contains(err.Error(), "no such field") {
			t.Errorf("broken: %v", err)
		}
		if made, err := r.Render(e, class("a")); err != nil || string(made.Object) != want("x", "1", class("a")) {
			t.Errorf("a class beside: %s %v", made.Object, err)
		}
	}
	if n := r.made.Load(); n != 1+10 { // each class("a") is another
		t.Errorf("rendered %d times", n)
	}
	plain := New(builtins())
	if _, err := plain.Render(e, class("a")); err == nil {
		t.Error("a class whose rules nothing follows was rendered")
	}
	if _, err := plain.Render(table.NewEntry(e.Key, []byte("nonsense"), 1, 1), nil); err == nil {
		t.Error("nonsense was rendered")
	}
}

// TestResultsAreBounded: with any bound of the cache, every location gets the rendering of its
// class, and the cache stays within its bound.
func TestResultsAreBounded(t *testing.T) {
	r := newCounted()
	r.kept.most = 20_000
	classes := []*placement.Class{nil, class("a"), class("b"), class("c")}
	var entries []*table.Entry
	data := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 10+i*i*10) }
	for i := range 30 {
		entries = append(entries, entry(fmt.Sprint(i), data(i)))
	}
	var group sync.WaitGroup
	for stream := range uint64(4) {
		rng := seeds.Rand(t, stream)
		group.Go(func() {
			for range 2000 {
				i, c := rng.IntN(len(entries)), classes[rng.IntN(len(classes))]
				text := want(fmt.Sprint(i), data(i), c)
				if sum, err := r.Digest(entries[i], c); err != nil || sum != wire.SumOf([]byte(text)) {
					t.Errorf("digest of %d for %s: %v", i, c, err)
				}
				if made, err := r.Render(entries[i], c); err != nil || string(made.Object) != text || made.Digest != wire.SumOf([]byte(text)) {
					t.Errorf("%d for %s: %s %v", i, c, made.Object, err)
				}
			}
		})
	}
	group.Wait()
	size := 0
	for e := r.kept.used.Front(); e != nil; e = e.Next() {
		k := e.Value.(*kept)
		made, _ := k.made()
		size += cap(made.Object) + len(k.result.entry.Value) + keptOverhead
	}
	if size != r.kept.size || size > r.kept.most || len(r.kept.known) != r.kept.used.Len() || size == 0 {
		t.Errorf("%d bytes in %d results are kept, counted as %d of %d in %d", size, r.kept.used.Len(), r.kept.size, r.kept.most, len(r.kept.known))
	}
	made, err := r.Render(entry("big", strings.Repeat("x", r.kept.most)), nil)
	if err != nil || len(made.Object) < r.kept.most {
		t.Errorf("what is larger than what is kept: %d bytes, %v", len(made.Object), err)
	}
	if r.kept.size > r.kept.most {
		t.Errorf("%d bytes are kept", r.kept.size)
	}
}

// Where there is one class, digests are remembered with the entries, whatever is kept.
func TestDigestsOfOneClass(t *testing.T) {
	r := newCounted()
	r.kept.most = 0
	e, c := entry("x", "1"), class("a")
	for range 3 {
		if _, err := r.Digest(e, c); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.made.Load(); n != 1 || r.kept.used.Len() != 0 {
		t.Errorf("rendered %d times, %d kept", n, r.kept.used.Len())
	}
}

// All versions of a resource travel alike, also for a hub without its CRD.
func TestAllVersionsTravelAlike(t *testing.T) {
	preserve := true
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
			},
		}
	}
	compiler, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	definition, err := compiler.Compile(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","uid":"u"},"spec":{"a":1},"status":{}}`)
	o := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("example.com", "widgets"), Namespace: "n", Name: "w"}}
	made, err := New(builtins()).Render(table.NewEntry(o.Key(), value, 1, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range definition.Kinds() {
		if got, err := k.Travel(value); err != nil || string(got) != string(made.Object) {
			t.Errorf("%s: %s %v, rendered %s", k.GVR, got, err, made.Object)
		}
	}
}

// TestFit: what is rendered by rules is to be right by the definition of its class.
func TestFit(t *testing.T) {
	r := newCounted()
	var seen []string
	r.Fit = func(object []byte, isCRD bool, definition *placement.Definition) error {
		seen = append(seen, fmt.Sprintf("%s by %s, itself one: %v", object, definition.Spec, isCRD))
		if definition.Spec == "narrow" {
			return errors.New("it does not fit")
		}
		return nil
	}
	e := entry("x", "1")
	wide, narrow := class("a"), class("b")
	wide.Definition, narrow.Definition = &placement.Definition{Spec: "wide", Hash: "w"}, &placement.Definition{Spec: "narrow", Hash: "n"}
	if got, err := r.Render(e, wide); err != nil || string(got.Object) != want("x", "1", wide) {
		t.Errorf("got %s, %v", got.Object, err)
	}
	for range 2 {
		if _, err := r.Digest(e, narrow); err == nil || !strings.Contains(err.Error(), "it does not fit") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := r.Digest(e, &placement.Class{Definition: wide.Definition}); err != nil {
		t.Error(err)
	}
	wanted := []string{want("x", "1", wide) + " by wide, itself one: false", want("x", "1", narrow) + " by narrow, itself one: false", want("x", "1", nil) + " by wide, itself one: false"}
	if !slices.Equal(seen, wanted) {
		t.Errorf("checked %q, want %q", seen, wanted)
	}
}
