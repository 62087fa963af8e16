package key

import "testing"

// TestPlacementRef: a name in a space identifies exactly one Placement.
func TestPlacementRef(t *testing.T) {
	for _, want := range []struct {
		p     Placement
		space Space
		ref   PlacementRef
	}{
		{Placement{"shop", "web"}, "shop", "web"},
		{Placement{Root, "web"}, "shop", "root/web"},
		{Placement{Root, "web"}, Root, "web"},
		{Placement{"shop", ""}, "shop", ""},
	} {
		if got := want.p.In(want.space); got != want.ref {
			t.Errorf("%v in %s is %q, want %q", want.p, want.space, got, want.ref)
		}
		if got := want.ref.Resolve(want.space); got != want.p {
			t.Errorf("%q of %s is %v, want %v", want.ref, want.space, got, want.p)
		}
	}
}
