package prune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
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
		if x.isLet(l, g, one) {
			all = append(all, wire.Confirmation{Space: string(g.space), Digest: one.digest})
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

// isLet says whether the status of a Placement confirms what waits of a group at a location.
func (x *Index) isLet(l key.Location, g group, one part) bool {
	c := let{wire.Confirmation{Space: string(g.space), Digest: one.digest}, false}
	if x.let[l][c] > 0 {
		return true
	}
	c.byRoot = true
	return g.reached() && x.let[l][c] > 0
}

// Status is what a Placement's status says: its pending removals, nil if none, and what
// it has confirmed that is not done. The latter is what was confirmed before and still
// waits unchanged, and what the digest of the Placement's annotation names: all removals
// of one Placement of the space that wait, at all locations, and are not confirmed yet; of a
// Placement in root those of all spaces that it reaches.
func (x *Index) Status(p key.Placement, digest string, confirmed []v1alpha1.ConfirmedPrune) (*v1alpha1.WaitingPrune, []v1alpha1.ConfirmedPrune) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var keep []v1alpha1.ConfirmedPrune
	for _, c := range confirmed {
		if x.waits(p, c) {
			keep = append(keep, c)
		}
	}
	known := set(keep)
	if digest != "" {
		for _, of := range slices.SortedFunc(maps.Keys(x.toldIn(p.Space)), key.Placement.Compare) {
			open := x.open(of, p.Space, known)
			if open.digest(p.Space) != digest {
				continue
			}
			for _, at := range slices.SortedFunc(maps.Keys(open), spot.compare) {
				if len(keep) < maxConfirmed {
					keep = append(keep, confirmedIn(p.Space, at, open[at]))
				}
			}
			known = set(keep)
		}
	}
	slices.SortFunc(keep, func(a, b v1alpha1.ConfirmedPrune) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Space, b.Space))
	})
	return x.waiting(p, p.Space, known), keep
}

func (a spot) compare(b spot) int {
	return cmp.Or(cmp.Compare(a.location, b.location), cmp.Compare(a.space, b.space))
}

// confirmedIn is how the status of a Placement of a space confirms a part.
func confirmedIn(s key.Space, at spot, one part) v1alpha1.ConfirmedPrune {
	c := v1alpha1.ConfirmedPrune{Location: string(at.location), Digest: one.digest}
	if at.space != s {
		c.Space = string(at.space)
	}
	return c
}

// toldIn are the Placements of which something waits that is told in a space: of its
// objects, and in root also what those of root no longer assign in other spaces.
func (x *Index) toldIn(s key.Space) map[key.Placement]struct{} {
	all := map[key.Placement]struct{}{}
	for of := range x.groups[s] {
		all[of.Of(s)] = struct{}{}
	}
	if s != key.Root {
		return all
	}
	for space, groups := range x.groups {
		for of := range groups {
			if (group{space, of}).reached() {
				all[of.Of(space)] = struct{}{}
			}
		}
	}
	return all
}

// told is what waits of a Placement, as far as it is told in a space. The caller must not
// change it.
func (x *Index) told(p key.Placement, in key.Space) parts {
	if in != key.Root {
		return x.groups[in][p.In(in)]
	}
	all := parts{}
	for space, groups := range x.groups {
		maps.Copy(all, groups[p.In(space)])
	}
	return all
}

func set(all []v1alpha1.ConfirmedPrune) map[v1alpha1.ConfirmedPrune]bool {
	known := map[v1alpha1.ConfirmedPrune]bool{}
	for _, c := range all {
		known[c] = true
	}
	return known
}

// waits says whether what was confirmed by a Placement still waits unchanged.
func (x *Index) waits(p key.Placement, c v1alpha1.ConfirmedPrune) bool {
	for g, one := range x.places[key.Location(c.Location)].of {
		if c == confirmedIn(p.Space, spot{g.space, key.Location(c.Location)}, one) && (g.space == p.Space || p.Space == key.Root && g.reached()) {
			return true
		}
	}
	return false
}

// open is what waits of a Placement, as far as it is told in a space, and is neither
// confirmed in a status nor in known.
func (x *Index) open(p key.Placement, in key.Space, known map[v1alpha1.ConfirmedPrune]bool) parts {
	open := parts{}
	for at, one := range x.told(p, in) {
		if !x.isLet(at.location, group{at.space, p.In(at.space)}, one) && !known[confirmedIn(in, at, one)] {
			open[at] = one
		}
	}
	return open
}

// digest names exactly what waits at exactly these spots, as it is told in a space; empty
// for nothing.
func (all parts) digest(in key.Space) string {
	if len(all) == 0 {
		return ""
	}
	var sum wire.Sum
	for at, one := range all {
		text := fmt.Appendf(nil, "%s\n%s\n%d", at.location, one.digest, one.pending)
		if at.space != in {
			text = fmt.Appendf(text, "\n%s", at.space)
		}
		sum = sum.Add(wire.SumOf(text))
	}
	return sum.String()[:digestSize]
}

// waiting are the pending removals of a Placement, as far as they are told in a space; nil
// if none.
func (x *Index) waiting(p key.Placement, in key.Space, known map[v1alpha1.ConfirmedPrune]bool) *v1alpha1.WaitingPrune {
	all := x.told(p, in)
	if len(all) == 0 {
		return nil
	}
	w, locations := &v1alpha1.WaitingPrune{Digest: x.open(p, in, known).digest(in)}, map[key.Location]bool{}
	for at, one := range all {
		w.Pending += one.pending
		locations[at.location] = true
	}
	w.Locations = int64(len(locations))
	return w
}

// Waiting are the pending removals that are told in a space, by Placement in order of names.
func (x *Index) Waiting(s key.Space) []Waiting {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []Waiting
	byName := func(a, b key.Placement) int { return cmp.Compare(a.In(s), b.In(s)) }
	for _, of := range slices.SortedFunc(maps.Keys(x.toldIn(s)), byName) {
		all = append(all, Waiting{of.In(s), *x.waiting(of, s, nil)})
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
