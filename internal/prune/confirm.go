package prune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxConfirmations bounds how many confirmations an agent is told.
	maxConfirmations = 100
	// maxConfirmed bounds how many locations a Placement lists as confirmed. What waits
	// at others needs another confirmation, by another digest.
	maxConfirmed = 5000
	// digestSize is how many characters of a sum make a digest that people type.
	digestSize = 16
)

// Waiting are the pending removals of one Placement.
type Waiting struct {
	// Placement is the Placement, as it is named in the space; empty for removals of which
	// none is known.
	Placement key.PlacementRef `json:"placement,omitempty"`
	v1alpha1.WaitingPrune
}

// Confirmations are what owners of Placements have confirmed for a location's agent:
// what is confirmed in the status of Placements and still waits here, and the digests in
// the annotations of Placements, for the spaces of which something waits here.
func (x *Index) Confirmations(l key.Location) []wire.Confirmation {
	x.mu.RLock()
	defer x.mu.RUnlock()
	here := x.places[l]
	var all []wire.Confirmation
	for g, one := range here.of {
		if c := (wire.Confirmation{Space: string(g.space), Digest: one.digest}); x.let[l][c] > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, compare)
	var said []wire.Confirmation
	for space := range here.spaces {
		for _, o := range x.owners[space] {
			if o.digest != "" {
				said = append(said, wire.Confirmation{Space: string(space), Digest: o.digest})
			}
		}
	}
	slices.SortFunc(said, compare)
	all = append(slices.Compact(all), slices.Compact(said)...)
	return all[:min(maxConfirmations, len(all))]
}

func compare(a, b wire.Confirmation) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Digest, b.Digest))
}

// Status is what a Placement's status says: its pending removals, nil if none, and what
// it has confirmed that is not done. The latter is what was confirmed before and still
// waits unchanged, and what the digest of the Placement's annotation names: all removals
// of one Placement of the space that wait, at all locations, and are not confirmed yet.
func (x *Index) Status(p key.Placement, digest string, confirmed []v1alpha1.ConfirmedPrune) (*v1alpha1.WaitingPrune, []v1alpha1.ConfirmedPrune) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var keep []v1alpha1.ConfirmedPrune
	for _, c := range confirmed {
		if x.waits(p.Space, c) {
			keep = append(keep, c)
		}
	}
	known := set(keep)
	if digest != "" {
		for _, of := range slices.Sorted(maps.Keys(x.groups[p.Space])) {
			open := x.open(group{p.Space, of}, known)
			if open.digest() != digest {
				continue
			}
			for _, l := range slices.Sorted(maps.Keys(open)) {
				if len(keep) < maxConfirmed {
					keep = append(keep, v1alpha1.ConfirmedPrune{Location: string(l), Digest: open[l].digest})
				}
			}
			known = set(keep)
		}
	}
	slices.SortFunc(keep, func(a, b v1alpha1.ConfirmedPrune) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Digest, b.Digest))
	})
	return x.waiting(group{p.Space, p.In(p.Space)}, known), keep
}

func set(all []v1alpha1.ConfirmedPrune) map[v1alpha1.ConfirmedPrune]bool {
	known := map[v1alpha1.ConfirmedPrune]bool{}
	for _, c := range all {
		known[c] = true
	}
	return known
}

// waits says whether what was confirmed of a space still waits unchanged.
func (x *Index) waits(s key.Space, c v1alpha1.ConfirmedPrune) bool {
	for g, one := range x.places[key.Location(c.Location)].of {
		if g.space == s && one.digest == c.Digest {
			return true
		}
	}
	return false
}

// open is what waits of a group and is neither confirmed in a status nor in known.
func (x *Index) open(g group, known map[v1alpha1.ConfirmedPrune]bool) parts {
	open := parts{}
	for l, one := range x.groups[g.space][g.of] {
		if x.let[l][wire.Confirmation{Space: string(g.space), Digest: one.digest}] == 0 &&
			!known[v1alpha1.ConfirmedPrune{Location: string(l), Digest: one.digest}] {
			open[l] = one
		}
	}
	return open
}

// digest names exactly what waits at exactly these locations; empty for nothing.
func (all parts) digest() string {
	if len(all) == 0 {
		return ""
	}
	var sum wire.Sum
	for l, one := range all {
		sum = sum.Add(wire.SumOf(fmt.Appendf(nil, "%s\n%s\n%d", l, one.digest, one.pending)))
	}
	return sum.String()[:digestSize]
}

// waiting are the pending removals of a group; nil if none.
func (x *Index) waiting(g group, known map[v1alpha1.ConfirmedPrune]bool) *v1alpha1.WaitingPrune {
	all := x.groups[g.space][g.of]
	if len(all) == 0 {
		return nil
	}
	w := &v1alpha1.WaitingPrune{Locations: int64(len(all)), Digest: x.open(g, known).digest()}
	for _, one := range all {
		w.Pending += one.pending
	}
	return w
}

// Waiting are the pending removals in a space by Placement, in order of names.
func (x *Index) Waiting(s key.Space) []Waiting {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []Waiting
	for _, of := range slices.Sorted(maps.Keys(x.groups[s])) {
		all = append(all, Waiting{of, *x.waiting(group{s, of}, nil)})
	}
	return all
}

// Explain says what waits, and with which command it is let go; by is the Placement to name
// in that.
func Explain(w *v1alpha1.WaitingPrune, by string) string {
	if w.Digest == "" {
		return fmt.Sprintf("%d removals at %d locations are confirmed and not done yet", w.Pending, w.Locations)
	}
	return fmt.Sprintf("%d removals wait at %d locations, more at once than these allow; to let them go, run: orrery placement confirm-prune %s --digest %s",
		w.Pending, w.Locations, by, w.Digest)
}
