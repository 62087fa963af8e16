package key

import "testing"

// TestPlacementRef shows that a name in a space stands for one Placement.
func TestPlacementRef(t *testing.T) {
	for _, of := range []struct {
		p     Placement
		space Space
		ref   PlacementRef
	}{
		{Placement{"shop", "web"}, "shop", "web"},
		{Placement{Root, "web"}, "shop", "root/web"},
		{Placement{Root, "web"}, Root, "web"},
		{Placement{"shop", ""}, "shop", ""},
	} {
		if got := of.p.In(of.space); got != of.ref {
			t.Errorf("%v in %s is %q, want %q", of.p, of.space, got, of.ref)
		}
		if got := of.ref.Of(of.space); got != of.p {
			t.Errorf("%q of %s is %v, want %v", of.ref, of.space, got, of.p)
		}
	}
}
