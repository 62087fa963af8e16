package kinds

import (
	"fmt"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
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
	results := make([][]*Kind, 8)
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
	for _, kinds := range results {
		if len(kinds) != 2 || kinds[0] != results[0][0] || kinds[1] != results[0][1] {
			t.Fatalf("got %v and %v", kinds, results[0])
		}
	}
	a, err := results[0][0].Custom.Structural()
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := results[1][0].Custom.Structural(); a != b {
		t.Error("two schemas of one content")
	}
	two.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "Another."
	if other := compile(t, c, two); other[0] == results[0][0] {
		t.Error("another content has the same kind")
	}
}

func TestArtefactsAreBoundedAndComeBack(t *testing.T) {
	first := readCRD(t, "widgets")
	data, _, err := pack(canonical(first))
	if err != nil {
		t.Fatal(err)
	}
	// Room for two CRDs of this size.
	c, err := NewCompiler(Limits{Definitions: 1 << 20, Artefacts: artefactsWeight(data) * 5 / 2})
	if err != nil {
		t.Fatal(err)
	}
	structural := func(i int) any {
		crd := first.DeepCopy()
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		s, err := compile(t, c, crd)[0].Custom.Structural()
		if err != nil {
			t.Fatal(err)
		}
		return s
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
	rapid.Check(t, func(t *rapid.T) {
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
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
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
			case 2:
				l.put(m.key, int64(m.weight), m.value)
				remove(m.key)
				insert(m)
			case 3:
				l.drop(m.key)
				remove(m.key)
			}
			if l.len() != len(model) {
				t.Fatalf("%d values are kept, want %d", l.len(), len(model))
			}
		}
	})
}
