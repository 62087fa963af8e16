package placement

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naivePlacement is a Placement that acts on objects of a space, which names it ref.
type naivePlacement struct {
	ref  string
	home key.Space
	name string
	uid  string
	spec v1alpha1.PlacementSpec
}

// naivePlacements are those that act on objects of a space: its own, then root's.
func (w world) naivePlacements(s key.Space) (all []naivePlacement) {
	for _, home := range slices.Compact([]key.Space{s, key.Root}) {
		for _, name := range []string{"p", "q"} {
			p := w[placementAt(home, name).Key()]
			if p == nil || p.deleting {
				continue
			}
			spec, ok := p.spec.(v1alpha1.PlacementSpec)
			if !ok {
				continue
			}
			switch {
			case home == s && spec.Spaces == nil:
				all = append(all, naivePlacement{name, home, name, p.uid, spec})
			case home == key.Root && s != key.Root && spec.Spaces != nil && w.naiveReaches(*spec.Spaces, s):
				all = append(all, naivePlacement{"root/" + name, home, name, p.uid, spec})
			}
		}
	}
	return all
}

// naiveReaches reports whether a selector of spaces selects an existing one.
func (w world) naiveReaches(selector v1alpha1.SpaceSelector, s key.Space) bool {
	x := w[spaceAt(s).Key()]
	if x == nil || selector.Names == nil && selector.Selector == nil || selector.Names != nil && !slices.Contains(selector.Names, string(s)) {
		return false
	}
	return selector.Selector == nil || naiveAny([]metav1.LabelSelector{*selector.Selector}, x.labels)
}

// naiveReached is how many spaces a Placement of root reaches that are not being deleted.
func (w world) naiveReached(spec v1alpha1.PlacementSpec) (n int) {
	for _, s := range worldSpaces {
		if spec.Spaces != nil && !w.naiveGoing(s) && w.naiveReaches(*spec.Spaces, s) {
			n++
		}
	}
	return n
}
