package worklist

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestWithin compares what the engine says of what is in something with a look at all
// that it knows.
func TestWithin(t *testing.T) {
	const maps, crd = "core/configmaps/", "apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
	var all []key.Identity
	for _, id := range []string{
		"core/namespaces/a", crd, maps + "a/x", maps + "a/y", maps + "b/x", maps + "b/z", "batch/jobs/a/j", "example.com/widgets/b/w",
	} {
		all = append(all, parseIdentity(id))
	}
	seeds.Check(t, func(t *rapid.T) {
		e := New()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom(all).Draw(t, "identity")
			o := key.Object{Space: rapid.SampledFrom([]key.Space{"s", "t"}).Draw(t, "space"), Identity: id}
			switch it := e.items[id.String()]; rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				e.Touch([]store.Touched{{Object: o, Want: &store.Want{Kind: store.WantPut, Version: "v1", ObjectKind: "K"}}})
			case 2:
				e.Touch([]store.Touched{{Object: o}})
			case 3:
				e.Synced("", id.Resource, map[string]struct{}{}, 1)
			default:
				if it == nil {
					break
				}
				it.queue = running
				e.Finish(it, Result{
					Wanted: it.wanted, Forget: !it.wanted, Gone: it.spaces.list(), State: wire.Applied,
					Seen: &decide.Observed{Existence: decide.Absent, Revision: it.seen.revision},
				})
			}
			for _, in := range []key.Identity{all[0], {Resource: key.Namespaces, Name: "b"}, all[1]} {
				wanted, leaving := e.Within(in)
				for id, it := range e.items {
					switch inside := slices.Contains(Containers(parseIdentity(id)), in.String()); {
					case !inside || it.wanted && it.missing():
					case it.wanted:
						wanted--
					default:
						leaving--
					}
				}
				if wanted != 0 || leaving != 0 {
					t.Fatalf("%s: %d wanted and %d leaving too many", in, wanted, leaving)
				}
			}
		}
		for in, items := range e.inside {
			if len(items) == 0 {
				t.Fatalf("%s is empty, and remembered", in)
			}
		}
	})
}

// BenchmarkWithin asks for each of many namespaces what is in it.
func BenchmarkWithin(b *testing.B) {
	e := New()
	for n := range 1000 {
		for i := range 50 {
			id := key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: fmt.Sprint("n", n), Name: fmt.Sprint(i)}
			e.Touch([]store.Touched{{Object: key.Object{Space: "s", Identity: id}, Want: &store.Want{Kind: store.WantPut, Version: "v1", ObjectKind: "ConfigMap"}}})
		}
	}
	for b.Loop() {
		e.Within(key.Identity{Resource: key.Namespaces, Name: "n7"})
	}
}
