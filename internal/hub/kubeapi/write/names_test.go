package write

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestNamesAreGivenOnce checks random CRDs of a group, in any order of creations and changes. No two of
// them get the same name, and a CRD that has all its names is established.
func TestNamesAreGivenOnce(t *testing.T) {
	now := time.Unix(1, 0)
	seeds.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"as", "bs", "cs", "ds"})
		kind := rapid.SampledFrom([]string{"A", "B", "C"})
		var crds []*apiextensionsv1.CustomResourceDefinition
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			i := rapid.IntRange(0, len(crds)).Draw(t, "crd")
			if i == len(crds) {
				crd := &apiextensionsv1.CustomResourceDefinition{}
				crd.Spec.Names.Plural = fmt.Sprintf("p%d", step)
				crds = append(crds, crd)
			} else if rapid.Bool().Draw(t, "delete") {
				crds = slices.Delete(crds, i, i+1)
				continue
			}
			crd := crds[i]
			crd.Spec.Names.Kind = kind.Draw(t, "kind")
			crd.Spec.Names.ShortNames = rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "short")
			others := taken{resources: map[string]string{}, kinds: map[string]string{}}
			for j, other := range crds {
				if j != i {
					others.add("another", other.Status.AcceptedNames)
				}
			}
			delete(others.resources, "")
			delete(others.kinds, "")
			established := conditionTrue(crd.Status.Conditions, apiextensionsv1.Established)
			acceptNames(crd, others, now)
			all := crd.Status.AcceptedNames.Kind == crd.Spec.Names.Kind && crd.Status.AcceptedNames.ListKind == crd.Spec.Names.Kind+"List" &&
				crd.Status.AcceptedNames.Singular == strings.ToLower(crd.Spec.Names.Kind) && slices.Equal(crd.Status.AcceptedNames.ShortNames, crd.Spec.Names.ShortNames)
			if got := conditionTrue(crd.Status.Conditions, apiextensionsv1.NamesAccepted); got != all {
				t.Fatalf("names accepted %v, want %v: %+v", got, all, crd)
			}
			if got := conditionTrue(crd.Status.Conditions, apiextensionsv1.Established); got != (established || all) {
				t.Fatalf("established %v, want %v: %+v", got, established || all, crd)
			}
			seen := sets.New[string]()
			for _, crd := range crds {
				for n := range ownNames(crd) {
					if seen.Has(n) {
						t.Fatalf("%q was given twice", n)
					}
					seen.Insert(n)
				}
			}
		}
	})
}

// ownNames returns the accepted names of a CRD, prefixed by the type of the name.
func ownNames(crd *apiextensionsv1.CustomResourceDefinition) sets.Set[string] {
	n, own := crd.Status.AcceptedNames, sets.New[string]()
	for _, r := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		if r != "" {
			own.Insert("resource " + r)
		}
	}
	for _, k := range []string{n.Kind, n.ListKind} {
		if k != "" {
			own.Insert("kind " + k)
		}
	}
	return own
}

// TestAscendNamespace compares ascendNamespace, which skips keys, with a scan of all rows.
func TestAscendNamespace(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "aa", "a-b", "a.b", "b"})
		var updates []table.Update
		for rev := range rapid.IntRange(0, 40).Draw(t, "rows") {
			o := key.Object{Space: key.Space(segment.Draw(t, "space")), Identity: key.Identity{
				Resource: key.Resource{Group: segment.Draw(t, "group"), Resource: segment.Draw(t, "resource")},
				Name:     segment.Draw(t, "name"),
			}}
			if rapid.Bool().Draw(t, "namespaced") {
				o.Namespace = segment.Draw(t, "namespace")
			}
			updates = append(updates, table.Update{Key: o.Key(), Value: []byte("{}"), CreateRev: int64(rev) + 1, ModRev: int64(rev) + 1})
		}
		state := table.New(table.Config{WindowSteps: 1, WindowBytes: 1})
		state.Reset(100, updates)
		space, namespace := key.Space(segment.Draw(t, "of space")), segment.Draw(t, "of namespace")
		var want, got []string
		state.Snapshot().Ascend(key.SpacePrefix(space), func(row *table.Row) bool {
			if o, err := key.ParseObject(row.Key); err == nil && o.Namespace == namespace {
				want = append(want, row.Key)
			}
			return true
		})
		ascendNamespace(state.Snapshot(), space, namespace, func(row *table.Row) bool {
			got = append(got, row.Key)
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
