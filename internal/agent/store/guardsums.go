package store

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// pruneDigest is the length of the digest that identifies pending removals. It is long enough that
// the digests of two sets do not collide by accident, and short enough to be typed.
const pruneDigest = 16

// GuardGroup names the pending removals of one Placement, as SPACE/PLACEMENT, or the pending removals
// of a space without a known Placement, as SPACE.
type GuardGroup string

// split returns the space and the Placement, which may be empty.
func (g GuardGroup) split() (space key.Space, placement string) {
	name, placement, _ := strings.Cut(string(g), "/")
	return key.Space(name), placement
}

// GuardSums has the number and hash of the pending removals, by group. A map is never changed in
// place, since copies of Meta share it.
type GuardSums map[GuardGroup]GuardSum

// GuardSum is the number of pending removals, and their hash.
type GuardSum struct {
	Count int      `json:"count"`
	Sum   wire.Sum `json:"sum"`
}

// Digest returns the digest by which a confirmation names the removals.
func (g GuardSum) Digest() string { return g.Sum.String()[:pruneDigest] }

func (g GuardSum) add(o GuardSum) GuardSum { return GuardSum{g.Count + o.Count, g.Sum.Add(o.Sum)} }

// Total returns the number and hash of all pending removals.
func (all GuardSums) Total() (total GuardSum) {
	for _, g := range all {
		total = total.add(g)
	}
	return total
}

// bySpace returns the number and hash of the pending removals of each space.
func (all GuardSums) bySpace() map[key.Space]GuardSum {
	spaces := map[key.Space]GuardSum{}
	for group, g := range all {
		space, _ := group.split()
		spaces[space] = spaces[space].add(g)
	}
	return spaces
}

// with returns a copy in which a group has another number and hash.
func (all GuardSums) with(group GuardGroup, g GuardSum) GuardSums {
	next := maps.Clone(all)
	if next == nil {
		next = GuardSums{}
	}
	next[group] = g
	if g.Count == 0 {
		delete(next, group)
	}
	return next
}

// confirmed returns the groups that the settings confirm. The digest of a confirmation is that of all
// pending removals, of those of a space, or of a group.
func (all GuardSums) confirmed(s wire.Settings) map[GuardGroup]bool {
	total, spaces, confirmed := all.Total().Digest(), all.bySpace(), map[GuardGroup]bool{}
	for group, g := range all {
		space, _ := group.split()
		confirmed[group] = s.Purge || slices.ContainsFunc(s.Confirm, func(c wire.Confirmation) bool {
			byAdministrator := c.Space == ""
			return byAdministrator && c.Digest == total ||
				(byAdministrator || key.Space(c.Space) == space) && (c.Digest == spaces[space].Digest() || c.Digest == g.Digest())
		})
	}
	return confirmed
}

// status returns the number and digest of the pending removals for a status; nil if there are none.
func (all GuardSums) status() *wire.PruneStatus {
	total := all.Total()
	if total.Count == 0 {
		return nil
	}
	p := &wire.PruneStatus{Pending: total.Count, Digest: total.Digest()}
	spaces := all.bySpace()
	for _, s := range slices.Sorted(maps.Keys(spaces)) {
		p.Spaces = append(p.Spaces, wire.SpacePrune{Space: string(s), Pending: spaces[s].Count, Digest: spaces[s].Digest()})
	}
	for _, group := range slices.Sorted(maps.Keys(all)) {
		space, placement := group.split()
		g := all[group]
		p.Placements = append(p.Placements, wire.PlacementPrune{Space: string(space), Placement: placement, Pending: g.Count, Digest: g.Digest()})
	}
	return p
}
