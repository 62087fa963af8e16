package custom

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/test/support/seeds"
)

func TestEqualCRDsShareTheirKinds(t *testing.T) {
	c := newTestCompiler(t)
	one, two := readCRD(t, "widgets"), readCRD(t, "widgets")
	two.UID, two.ResourceVersion, two.Labels = "u", "7", map[string]string{"a": "b"}
	two.CreationTimestamp = metav1.Now()
	two.Spec.Conversion = nil
	two.Status.AcceptedNames = two.Spec.Names
	two.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	var wait sync.WaitGroup
	results := make([]*Definition, 8)
	for i := range results {
		wait.Go(func() {
			crd := one
			if i%2 == 1 {
				crd = two
			}
			results[i], _ = c.Compile(crd)
		})
	}
	wait.Wait()
	for _, d := range results {
		if d == nil || d != results[0] || len(d.Kinds()) != 2 {
			t.Fatalf("got %v and %v", d, results[0])
		}
	}
	two.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "Another."
	if other := compile(t, c, two); other[0] == results[0].Kinds()[0] {
		t.Error("another content has the same kind")
	}
}

func TestArtefactsAreBoundedAndComeBack(t *testing.T) {
	first := readCRD(t, "widgets")
	content, err := pack(canonical(first), first)
	if err != nil {
		t.Fatal(err)
	}
	// Room for two CRDs of this size.
	c, err := NewCompiler(Limits{Definitions: 1 << 20, Artefacts: artefactsWeight(content.data) * 5 / 2})
	if err != nil {
		t.Fatal(err)
	}
	structural := func(i int) any {
		crd := first.DeepCopy()
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		s, err := definitionOf(compile(t, c, crd)[0]).artefacts().structural()
		if err != nil {
			t.Fatal(err)
		}
		return s["v1"]
	}
	zero := structural(0)
	if structural(1); structural(0) != zero {
		t.Error("dropped though there was room")
	}
	for i := range 10 {
		structural(i + 1)
	}
	if n := c.artefacts.len(); n != 2 {
		t.Errorf("%d artefacts are kept", n)
	}
	if n := c.definitions.len(); n != 11 {
		t.Errorf("%d definitions are kept", n)
	}
	if structural(0) == zero {
		t.Error("kept though there was no room")
	}
}

// TestLRU compares the cache with a list that is searched.
func TestLRU(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		const limit = 10
		l := newLRU[int, int](limit)
		type item struct{ key, value, weight int }
		var model []item
		remove := func(key int) (item, bool) {
			for i, m := range model {
				if m.key == key {
					model = append(model[:i:i], model[i+1:]...)
					return m, true
				}
			}
			return item{}, false
		}
		insert := func(m item) {
			model = append([]item{m}, model...)
			sum := 0
			for i, m := range model {
				if sum += m.weight; sum > limit && i > 0 {
					model = model[:i]
					break
				}
			}
		}
		next := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			next++
			m := item{rapid.IntRange(0, 8).Draw(t, "key"), next, rapid.IntRange(1, 12).Draw(t, "weight")}
			switch rapid.IntRange(0, 1).Draw(t, "operation") {
			case 0:
				got := l.get(m.key, int64(m.weight), func() int { return m.value })
				if old, ok := remove(m.key); ok {
					m = old
					model = append([]item{m}, model...)
				} else {
					insert(m)
				}
				if got != m.value {
					t.Fatalf("get %d: got %d, want %d", m.key, got, m.value)
				}
			case 1:
				got, ok := l.peek(m.key)
				old, want := remove(m.key)
				if want {
					model = append([]item{old}, model...)
				}
				if ok != want || got != old.value {
					t.Fatalf("peek %d: got %d %v, want %d %v", m.key, got, ok, old.value, want)
				}
			}
			if l.len() != len(model) {
				t.Fatalf("%d values are kept, want %d", l.len(), len(model))
			}
		}
	})
}

// A definition that was evicted from the caches, but is still in use, is found again and not
// compiled a second time. A definition that is no longer in use is freed.
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
	var all [n]*kinds.Kind
	for i := range n {
		crd := readCRD(t, "widgets")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		all[i] = compile(t, c, crd)[0]
	}
	var users sync.WaitGroup
	for u := range n {
		users.Go(func() {
			for round := range 6 {
				k := all[(u+round)%n]
				today, err := k.Custom.Today([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"old":1,"spec":{"size":3}}` + "\n"))
				if err != nil || !strings.Contains(string(today), `"spec":{"colour":"red","size":3}`) {
					t.Errorf("read: %v %s", err, today)
				}
				if _, err := k.Custom.OpenAPI().V3(); err != nil {
					t.Errorf("describe: %v", err)
				}
				if _, err := definitionOf(k).artefacts().strategies["v1"](); err != nil {
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
