package registry

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// The weight of the cache is that of what is in it, with each definition counted once.
func TestCatalogsWeighDefinitionsOnce(t *testing.T) {
	compiler, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	definitions := []definedBy{{}} // a CRD that defines nothing
	for _, name := range []string{"widgets", "widgets-other", "gears", "widgets"} {
		crd := readCRD(t, name)
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(len(definitions))
		d, err := compiler.Compile(crd)
		if err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, definedBy{definition: d})
	}
	seeds.Check(t, func(t *rapid.T) {
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
			want, seen := int64(0), map[*custom.Definition]bool{}
			for e := c.order.Front(); e != nil; e = e.Next() {
				for _, row := range e.Value.(*keptCatalog).catalog.rows {
					want += rowWeight
					if d := row.definition; d != nil && !seen[d] {
						seen[d] = true
						want += d.Weight()
					}
				}
			}
			if c.weight != want || len(c.users) != len(seen) || c.weight > limit && c.len() > 1 {
				t.Fatalf("weight %d of %d catalogs, want %d", c.weight, c.len(), want)
			}
		}
	})
}
