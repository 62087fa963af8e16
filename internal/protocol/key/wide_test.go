package key

import (
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

// TestWideNamesAreApart: names are unique, and each identifies its object.
func TestWideNamesAreApart(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		label := rapid.StringMatching(`[a-z0-9]|[a-z0-9][a-z0-9]|[a-z0-9]-[a-z0-9]`)
		name := rapid.StringMatching(`[a-z0-9:.-]{1,6}`)
		w := Wide{rapid.Bool().Draw(t, "spaces"), rapid.Bool().Draw(t, "locations")}
		o := Object{Space: Space(label.Draw(t, "space")), Identity: Identity{Resource: ConfigMaps, Name: name.Draw(t, "name")}}
		namespaced := rapid.Bool().Draw(t, "namespaced")
		if namespaced {
			o.Namespace = rapid.StringMatching(`[a-z0-9](-{0,3}[a-z0-9]){0,3}`).Draw(t, "namespace")
		}
		l := Location(label.Draw(t, "location"))
		want := Called{Namespace: o.Namespace, Name: o.Name}
		if w.Spaces {
			want.Space = o.Space
		}
		if w.Locations {
			want.Location = l
		}
		namespace, called := w.ObjectName(l, o)
		if got, ok := w.Split(namespaced, namespace, called); !ok || got != want {
			t.Fatalf("%+v: %q %q is %+v %v, want %+v", w, namespace, called, got, ok, want)
		}
	})
	for _, c := range []struct {
		namespaced      bool
		namespace, name string
	}{{true, "n", "l.x"}, {true, "s--", "l.x"}, {true, "--n", "l.x"}, {true, "s--n", "x"}, {true, "s--n", ".x"}, {true, "s--n", "l."}, {false, "", "l.x"}, {false, "", "x"}} {
		if got, ok := (Wide{true, true}).Split(c.namespaced, c.namespace, c.name); ok {
			t.Errorf("%+v is %+v", c, got)
		}
	}
}
