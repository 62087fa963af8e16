package read

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// stricter is the kind of widgets with a schema that knows one field.
func stricter(t *testing.T) *kinds.Kind {
	t.Helper()
	c, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	crd := widgets()
	red := &apiextensionsv1.JSON{Raw: []byte(`"red"`)}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"colour": {Type: "string", Default: red},
	}}
	crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".colour"}}
	definition, err := c.Compile(crd)
	if err != nil {
		t.Fatal(err)
	}
	return definition.Kinds()[0]
}

// TestReadsByTodaysDefinition checks that a changed schema applies to all reads, and costs nothing for
// objects that it does not change.
func TestReadsByTodaysDefinition(t *testing.T) {
	f := newFixture(t)
	defer f.server.Close()
	f.put(
		sample{gvr: widgetsV1, space: "a", namespace: "default", name: "old", content: map[string]any{"size": 1}},
		sample{gvr: widgetsV1, space: "a", namespace: "default", name: "same", content: map[string]any{"colour": "blue"}},
	)
	r := f.server.reader(Space("a"), stricter(t))
	list := func(selector string) string {
		t.Helper()
		s, err := fields.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.List(t.Context(), &metainternalversion.ListOptions{FieldSelector: s})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range l.(*list).Items {
			u, err := o.decode()
			if err != nil {
				t.Fatal(err)
			}
			content := u.(runtime.Unstructured).UnstructuredContent()
			names = append(names, fmt.Sprint(o.GetObjectMeta().GetName(), " ", content["colour"], " ", content["size"]))
		}
		return strings.Join(names, ", ")
	}
	for range 2 {
		if got := list(""); got != "old red <nil>, same blue <nil>" {
			t.Errorf("got %s", got)
		}
	}
	if got := list("colour=red"); got != "old red <nil>" {
		t.Errorf("red ones: %s", got)
	}
	row, _ := f.table.Get("o/a/example.com/widgets/default/same")
	if r.view.today(row) != row {
		t.Error("an object that reads as it was written was copied")
	}
	if before := f.reader(Space("a"), widgetsV1); before.view.today(row) != row {
		t.Error("and is read by another definition, too")
	}
	o, err := r.Get(request.WithNamespace(t.Context(), "default"), "old", &metav1.GetOptions{})
	if err != nil || o.(*object).rev != row.ModRev {
		t.Errorf("got %v %v", o, err)
	}
}

// TestListsAreBoundedByTodaysDefinition: defaults that a definition has got since objects were stored do not
// make a list of them too large for memory. Pages of it can be read.
func TestListsAreBoundedByTodaysDefinition(t *testing.T) {
	f := newFixture(t, func(c *Config, _ *table.Config) { c.DecodedListBytes = 1 << 20 })
	defer f.server.Close()
	for i := range 10 {
		f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: fmt.Sprintf("w%d", i)})
	}
	c, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	crd := widgets()
	text := &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", 200<<10) + `"`)}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"text": {Type: "string", Default: text},
	}}
	definition, err := c.Compile(crd)
	if err != nil {
		t.Fatal(err)
	}
	r := f.server.reader(Space("a"), definition.Kinds()[0])
	if _, err := r.List(t.Context(), &metainternalversion.ListOptions{}); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "ask for pages") {
		t.Errorf("got %v", err)
	}
	if l, err := r.List(t.Context(), &metainternalversion.ListOptions{Limit: 3}); err != nil || len(l.(*list).Items) != 3 {
		t.Errorf("a page: %v %v", l, err)
	}
	pages := func(opts metainternalversion.ListOptions) (names []string, n int) {
		t.Helper()
		for n = 1; ; n++ {
			r := f.server.reader(Space("a"), definition.Kinds()[0])
			l, err := r.List(t.Context(), &opts)
			if err != nil {
				t.Fatal(err)
			}
			if added := r.view.added.Load(); added > 1<<20+400<<10 {
				t.Errorf("page %d adds %d bytes", n, added)
			}
			for _, o := range l.(*list).Items {
				names = append(names, o.GetObjectMeta().GetName())
			}
			if opts.Continue = l.(*list).Continue; opts.Continue == "" {
				return names, n
			}
			if l.(*list).RemainingItemCount != nil {
				t.Errorf("page %d has a number of remaining objects", n)
			}
		}
	}
	all := []string{"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"}
	if names, n := pages(metainternalversion.ListOptions{Limit: 500}); !slices.Equal(names, all) || n == 1 {
		t.Errorf("%d pages of many objects: %v", n, names)
	}
	for selector, want := range map[string][]string{"metadata.name!=w0": all[1:], "metadata.name!=w9": all[:9], "metadata.namespace!=default": nil} {
		opts := metainternalversion.ListOptions{Limit: 500, FieldSelector: fields.ParseSelectorOrDie(selector)}
		if names, n := pages(opts); !slices.Equal(names, want) || n == 1 {
			t.Errorf("%d pages of objects with %s: %v", n, selector, names)
		}
	}
}

func widgetsCRD(s key.Space, _ *kinds.Kind) []string {
	return []string{key.Object{Space: s, Identity: key.Identity{Resource: key.CRDs, Name: "widgets.example.com"}}.Key()}
}

// TestWatchEndsWithItsDefinition checks that a watch sends all events until its kind was redefined, and
// then ends.
func TestWatchEndsWithItsDefinition(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var defined atomic.Bool
		defined.Store(true)
		f := newFixture(t, func(c *Config, _ *table.Config) {
			c.Defines = func(s key.Space, k *kinds.Kind) bool { return s == "b" || k.Custom != nil && defined.Load() }
			c.DefinedBy = widgetsCRD
		})
		defer f.server.Close()
		definition := func(s key.Space) table.Update {
			return table.Update{Key: key.Object{Space: s, Identity: key.Identity{Resource: key.CRDs, Name: "widgets.example.com"}}.Key(), Value: []byte(`{"metadata":{"name":"widgets.example.com"}}`)}
		}
		f.apply(definition("a"))
		open := func(s key.Space) <-chan string {
			w, err := f.reader(Space(s), widgetsV1).Watch(t.Context(), &metainternalversion.ListOptions{ResourceVersion: "1"})
			if err != nil {
				t.Fatal(err)
			}
			names := make(chan string, 10)
			go func() {
				defer close(names)
				for e := range w.ResultChan() {
					names <- e.Object.(*object).GetObjectMeta().GetName()
				}
			}()
			return names
		}
		mine, other := open("a"), open("b")
		f.apply(definition("a")) // a change that is none for objects
		f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "before"})
		if name := <-mine; name != "before" {
			t.Errorf("got %q", name)
		}
		f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "last"})
		defined.Store(false)
		f.apply(definition("a"))
		if name := <-mine; name != "last" {
			t.Errorf("got %q", name)
		}
		if name, ok := <-mine; ok {
			t.Errorf("got %q after the definition", name)
		}
		for range open("a") { // one by an old definition does not go on
		}
		f.put(sample{gvr: widgetsV1, space: "b", namespace: "default", name: "apart"})
		if name := <-other; name != "apart" {
			t.Errorf("got %q", name)
		}
	})
}

// TestWatchEndsBehindDeletions checks that a slow client gets all deletions before its watch ends
// with the kind.
func TestWatchEndsBehindDeletions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const count = 10 * pendingEvents
		var gone atomic.Bool
		f := newFixture(t, func(c *Config, _ *table.Config) {
			c.Defines = func(key.Space, *kinds.Kind) bool { return !gone.Load() }
			c.DefinedBy = widgetsCRD
		})
		defer f.server.Close()
		crd := key.Object{Space: "a", Identity: key.Identity{Resource: key.CRDs, Name: "widgets.example.com"}}.Key()
		widget := func(i int) sample {
			return sample{gvr: widgetsV1, space: "a", namespace: "default", name: fmt.Sprint(i)}
		}
		f.apply(table.Update{Key: crd, Value: []byte(`{"metadata":{"name":"widgets.example.com"}}`)})
		for i := range count {
			f.put(widget(i))
		}
		w, err := f.reader(Space("a"), widgetsV1).Watch(t.Context(), &metainternalversion.ListOptions{ResourceVersion: fmt.Sprint(1 + count)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range count {
			f.del(widget(i))
			synctest.Wait()
		}
		gone.Store(true)
		f.apply(table.Update{Key: crd})
		synctest.Wait() // the client does not read
		n := 0
		for e := range w.ResultChan() {
			if e.Type != watch.Deleted {
				t.Errorf("got %v", e)
			}
			n++
		}
		if n != count {
			t.Errorf("%d of %d deletions", n, count)
		}
	})
}
