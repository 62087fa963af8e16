package kinds

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/key"
)

// The weight that is kept is that of what is kept: each definition once.
func TestCatalogsWeighDefinitionsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var definitions []definedBy
		for i := range 4 {
			d := &definition{source: make([]byte, (i+1)*1000)}
			d.kinds = []*Kind{{Custom: &Custom{def: d}}}
			definitions = append(definitions, definedBy{kinds: d.kinds})
		}
		definitions = append(definitions, definedBy{}) // a CRD that defines nothing
		const limit = 30 << 10
		c := newCatalogs(limit)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := key.Space(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "space"))
			if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
				c.drop(s)
			} else {
				rows := rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 5, rapid.ID).Draw(t, "rows")
				made := &spaceCatalog{}
				for _, i := range rows {
					made.rows = append(made.rows, definitions[i])
				}
				c.put(s, made)
				if got, ok := c.peek(s); !ok || got != made {
					t.Fatal("what was asked for last is not kept")
				}
			}
			want, seen := int64(0), map[*definition]bool{}
			for e := c.order.Front(); e != nil; e = e.Next() {
				for _, row := range e.Value.(*keptCatalog).catalog.rows {
					want += rowWeight
					if d := row.definition(); d != nil && !seen[d] {
						seen[d] = true
						want += d.weight()
					}
				}
			}
			if c.weight != want || len(c.users) != len(seen) || c.weight > limit && c.len() > 1 {
				t.Fatalf("weight %d of %d catalogs, want %d", c.weight, c.len(), want)
			}
		}
	})
}

// What no cache has any more, but a client still uses, is found again and not
// compiled a second time; what nobody uses goes.
func TestOneDefinitionWhileInUse(t *testing.T) {
	c, err := NewCompiler(Limits{Definitions: 1, Artefacts: 1})
	if err != nil {
		t.Fatal(err)
	}
	crd := func(i int) *apiextensionsv1.CustomResourceDefinition {
		crd := readCRD(t, "widgets")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		return crd
	}
	used := compile(t, c, crd(0))
	for i := range 20 {
		compile(t, c, crd(i+1))
	}
	if again := compile(t, c, crd(0)); again[0] != used[0] {
		t.Error("compiled again while in use")
	}
	runtime.KeepAlive(used)
	compile(t, c, crd(21))
	for range 100 {
		runtime.GC()
		n := 0
		c.alive.Range(func(any, any) bool { n++; return true })
		if n == 1 {
			return
		}
	}
	t.Error("what nobody uses is kept")
}

// Many clients use many kinds at once while the caches hold almost none of them.
func TestEvictionUnderUse(t *testing.T) {
	c, err := NewCompiler(Limits{Definitions: 1, Artefacts: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 4
	var kinds [n]*Kind
	for i := range n {
		crd := readCRD(t, "widgets")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		kinds[i] = compile(t, c, crd)[0]
	}
	var users sync.WaitGroup
	for u := range n {
		users.Go(func() {
			for round := range 6 {
				k := kinds[(u+round)%n]
				today, err := k.Custom.Today([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"old":1,"spec":{"size":3}}` + "\n"))
				if err != nil || !strings.Contains(string(today), `"spec":{"colour":"red","size":3}`) {
					t.Errorf("read: %v %s", err, today)
				}
				if _, err := k.Custom.documents().v3(); err != nil {
					t.Errorf("describe: %v", err)
				}
				if _, err := k.Custom.strategies(); err != nil {
					t.Errorf("compile: %v", err)
				}
			}
		})
	}
	users.Wait()
	if n := c.artefacts.len(); n != 1 {
		t.Errorf("%d artefacts are kept", n)
	}
}
