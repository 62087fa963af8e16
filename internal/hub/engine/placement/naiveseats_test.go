package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveSeats are those of the selected locations that an object gets by a Placement with a
// UID; nil: one that is nowhere.
func (w world) naiveSeats(s key.Space, uid string, spec v1alpha1.PlacementSpec, o *key.Object) []key.Location {
	return w.naiveSeatsIn(w.naiveSeen(s, spec), uid, spec, o)
}

// naiveSeatsIn are those of some locations.
func (w world) naiveSeatsIn(all []key.Location, uid string, spec v1alpha1.PlacementSpec, o *key.Object) []key.Location {
	return w.naivePicked(slices.DeleteFunc(all, func(l key.Location) bool { return w.naiveTainted(l, spec.Tolerations, &o) }), uid, spec)
}

// naivePicked are those that are picked of locations that are open.
func (w world) naivePicked(open []key.Location, uid string, spec v1alpha1.PlacementSpec) []key.Location {
	if spec.Pick == nil {
		return open
	}
	var picked []key.Location
	for len(picked) < int(spec.Pick.Count) && len(open) > 0 {
		best := slices.MaxFunc(open, func(a, b key.Location) int {
			rank := func(l key.Location) (behind int, group, own uint64) {
				x := w[locationAt(l).Key()]
				if label := spec.Pick.SpreadBy; label != "" {
					for _, p := range picked {
						if w[locationAt(p).Key()].labels[label] == x.labels[label] {
							behind--
						}
					}
					group = score(uid, "="+x.labels[label])
				}
				return behind, group, score(uid, x.uid)
			}
			behindA, groupA, ownA := rank(a)
			behindB, groupB, ownB := rank(b)
			return cmp.Or(cmp.Compare(behindA, behindB), cmp.Compare(groupA, groupB), cmp.Compare(ownA, ownB), -strings.Compare(string(a), string(b)))
		})
		picked = append(picked, best)
		open = slices.DeleteFunc(open, func(l key.Location) bool { return l == best })
	}
	slices.Sort(picked)
	return picked
}

// naiveTainted reports whether taints keep an object from a location: any with effect Evict or,
// unless object is nil, those with effect NoPlace. *object is nil for an object that is at no
// location.
func (w world) naiveTainted(l key.Location, tolerations []v1alpha1.Toleration, object **key.Object) bool {
	x := w[locationAt(l).Key()]
	spec, _ := x.spec.(v1alpha1.LocationSpec)
	status, _ := x.status.(v1alpha1.LocationStatus)
	for _, t := range spec.Taints {
		tolerated := false
		for _, toleration := range tolerations {
			key, effect := toleration.Key == "" || toleration.Key == t.Key, toleration.Effect == "" || toleration.Effect == t.Effect
			tolerated = tolerated || key && effect && (toleration.Operator == "Exists" || toleration.Value == t.Value)
		}
		switch {
		case tolerated:
		case t.Effect == "Evict":
			return true
		case object == nil: // assigned directly, or asked
		case *object == nil:
			return true
		default:
			report := w[key.Report{Location: l, Origin: key.Placed, Object: **object}.Key()]
			if report == nil {
				return true
			}
			for _, came := range status.Taints {
				if came.Key == t.Key && came.Effect == t.Effect {
					if rev := naiveNumber(came.ResourceVersion); report.createRev > rev {
						return true
					}
					break
				}
			}
		}
	}
	return false
}

func naiveNumber(text string) (n int64) {
	if _, err := fmt.Sscan(text, &n); err != nil {
		panic(err)
	}
	return n
}
