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
	// maxConfirmations bounds the confirmations that an agent receives.
	maxConfirmations = 100
	// maxConfirmed bounds the confirmed locations of a Placement. Pending removals at others need
	// another confirmation, with another digest.
	maxConfirmed = 5000
	// digestSize is the length of a digest that users type.
	digestSize = 16
)

// Waiting are the pending removals of one Placement.
type Waiting struct {
	// Placement is the name of the Placement in the space; empty for removals without a known
	// Placement.
	Placement key.PlacementRef `json:"placement,omitempty"`
	v1alpha1.WaitingPrune
}

// Confirmations returns the confirmations for a location's agent: those in the status of Placements
// whose removals are still pending here, and the digests in the annotations of Placements, for the
// spaces with pending removals here.
func (x *Index) Confirmations(l key.Location) []wire.Confirmation {
	x.mu.RLock()
	defer x.mu.RUnlock()
	here := x.places[l]
	var all []wire.Confirmation
	for g, one := range here.groups {
		if x.isLet(l, g, one) {
			all = append(all, wire.Confirmation{Space: string(g.space), Digest: one.digest})
		}
	}
	slices.SortFunc(all, compare)
	var announced []wire.Confirmation
	for space := range here.spaces {
		for _, o := range x.owners[space] {
			if o.digest != "" {
				announced = append(announced, wire.Confirmation{Space: string(space), Digest: o.digest})
			}
		}
	}
	slices.SortFunc(announced, compare)
	all = append(slices.Compact(all), slices.Compact(announced)...)
	return all[:min(maxConfirmations, len(all))]
}

func compare(a, b wire.Confirmation) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Digest, b.Digest))
}

// isLet reports whether the status of a Placement confirms the pending removals of a group at a
// location.
func (x *Index) isLet(l key.Location, g group, one pendingPart) bool {
	c := let{wire.Confirmation{Space: string(g.space), Digest: one.digest}, false}
	if x.let[l][c] > 0 {
		return true
	}
	c.byRoot = true
	return g.reached() && x.let[l][c] > 0
}

// Status returns two fields of a Placement's status: its pending removals, nil if there are none,
// and its confirmations that are not executed yet. These are the earlier confirmations whose
// removals are still pending and unchanged, and the removals with the digest of the Placement's
// annotation: all pending and unconfirmed removals of one Placement of the space, at all locations.
// For a Placement in root, they include those of all selected spaces.
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
		for _, placement := range slices.SortedFunc(maps.Keys(x.visibleIn(p.Space)), key.Placement.Compare) {
			open := x.open(placement, p.Space, known)
			if open.digest(p.Space) != digest {
				continue
			}
			for _, place := range slices.SortedFunc(maps.Keys(open), locationSpace.compare) {
				if len(keep) < maxConfirmed {
					keep = append(keep, confirmedIn(p.Space, place, open[place]))
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

func (a locationSpace) compare(b locationSpace) int {
	return cmp.Or(cmp.Compare(a.location, b.location), cmp.Compare(a.space, b.space))
}

// confirmedIn returns the confirmation of a part in the status of a Placement of a space.
func confirmedIn(s key.Space, place locationSpace, one pendingPart) v1alpha1.ConfirmedPrune {
	c := v1alpha1.ConfirmedPrune{Location: string(place.location), Digest: one.digest}
	if place.space != s {
		c.Space = string(place.space)
	}
	return c
}

// visibleIn returns the Placements with pending removals that users of a space may see. These are the
// Placements that assigned objects of the space. For root, the result includes Placements of root that
// assigned objects of other spaces.
func (x *Index) visibleIn(s key.Space) map[key.Placement]struct{} {
	all := map[key.Placement]struct{}{}
	for ref := range x.groups[s] {
		all[ref.Resolve(s)] = struct{}{}
	}
	if s != key.Root {
		return all
	}
	for space, groups := range x.groups {
		for ref := range groups {
			if (group{space, ref}).reached() {
				all[ref.Resolve(space)] = struct{}{}
			}
		}
	}
	return all
}

// visible returns the pending removals of a Placement, as far as they are visible in a space. The
// caller must not change the result.
func (x *Index) visible(p key.Placement, in key.Space) pendingParts {
	if in != key.Root {
		return x.groups[in][p.In(in)]
	}
	all := pendingParts{}
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

// waits reports whether the removals in a confirmation of a Placement are still pending and
// unchanged.
func (x *Index) waits(p key.Placement, c v1alpha1.ConfirmedPrune) bool {
	for g, one := range x.places[key.Location(c.Location)].groups {
		if c == confirmedIn(p.Space, locationSpace{g.space, key.Location(c.Location)}, one) && (g.space == p.Space || p.Space == key.Root && g.reached()) {
			return true
		}
	}
	return false
}

// open returns the pending removals of a Placement, as far as they are visible in a space, that are
// neither confirmed in a status nor in known.
func (x *Index) open(p key.Placement, in key.Space, known map[v1alpha1.ConfirmedPrune]bool) pendingParts {
	open := pendingParts{}
	for place, one := range x.visible(p, in) {
		if !x.isLet(place.location, group{place.space, p.In(place.space)}, one) && !known[confirmedIn(in, place, one)] {
			open[place] = one
		}
	}
	return open
}

// digest identifies exactly these pending removals, for readers in a space; empty for none.
func (all pendingParts) digest(in key.Space) string {
	if len(all) == 0 {
		return ""
	}
	var sum wire.Sum
	for place, one := range all {
		text := fmt.Appendf(nil, "%s\n%s\n%d", place.location, one.digest, one.pending)
		if place.space != in {
			text = fmt.Appendf(text, "\n%s", place.space)
		}
		sum = sum.Add(wire.SumOf(text))
	}
	return sum.String()[:digestSize]
}

// waiting returns the pending removals of a Placement, as far as they are visible in a space; nil
// if there are none.
func (x *Index) waiting(p key.Placement, in key.Space, known map[v1alpha1.ConfirmedPrune]bool) *v1alpha1.WaitingPrune {
	all := x.visible(p, in)
	if len(all) == 0 {
		return nil
	}
	w, locations := &v1alpha1.WaitingPrune{Digest: x.open(p, in, known).digest(in)}, map[key.Location]bool{}
	for place, one := range all {
		w.Pending += one.pending
		locations[place.location] = true
	}
	w.Locations = int64(len(locations))
	return w
}

// Waiting returns the pending removals that are visible in a space, by Placement in the order of
// names.
func (x *Index) Waiting(s key.Space) []Waiting {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []Waiting
	byName := func(a, b key.Placement) int { return cmp.Compare(a.In(s), b.In(s)) }
	for _, placement := range slices.SortedFunc(maps.Keys(x.visibleIn(s)), byName) {
		all = append(all, Waiting{placement.In(s), *x.waiting(placement, s, nil)})
	}
	return all
}

// Explain describes pending removals and the command that confirms them, with the name of the
// Placement for that command.
func Explain(w *v1alpha1.WaitingPrune, name string) string {
	if w.Digest == "" {
		return fmt.Sprintf("%d removals at %d locations are confirmed and not done yet", w.Pending, w.Locations)
	}
	return fmt.Sprintf("%d removals wait at %d locations, more at once than these allow; to let them go, run: orrery placement confirm-prune %s --digest %s",
		w.Pending, w.Locations, name, w.Digest)
}
