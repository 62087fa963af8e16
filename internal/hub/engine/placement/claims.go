package placement

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// claims holds the spaces that place an object of an identity. Almost every identity at a location
// has one claimant, so the index by location is kept only for identities that several spaces place.
type claims map[key.Identity]claim

type claim struct {
	// space and as are the only claimant and its Membership, when conflict is nil.
	space    key.Space
	as       *Membership
	conflict *conflict
}

// conflict is an identity that several spaces place.
type conflict struct {
	as         map[key.Space]*Membership
	byLocation map[key.Location][]key.Space // in order
}

// identityAt is an identity at a location.
type identityAt struct {
	key.Identity
	location key.Location
}

// set records how a space places an object; nil removes the claim. It calls moved for every
// location where the claimants of a conflicting identity have changed.
func (c claims) set(o key.Object, as *Membership, moved func(location key.Location)) {
	old := c[o.Identity]
	switch {
	case old.conflict != nil:
		old.conflict.set(o.Space, as, moved)
		if len(old.conflict.as) == 1 {
			for space, as := range old.conflict.as {
				c[o.Identity] = claim{space: space, as: as}
			}
		}
	case old.as == nil || old.space == o.Space:
		if as == nil {
			delete(c, o.Identity)
			return
		}
		c[o.Identity] = claim{space: o.Space, as: as}
	case as != nil:
		now := &conflict{as: map[key.Space]*Membership{}, byLocation: map[key.Location][]key.Space{}}
		c[o.Identity] = claim{conflict: now}
		now.set(old.space, old.as, func(key.Location) {})
		now.set(o.Space, as, moved)
	}
}

func (c *conflict) set(space key.Space, as *Membership, moved func(location key.Location)) {
	old := c.as[space]
	if old != nil {
		for _, l := range old.members {
			if !old.contends(l) || as != nil && as.contends(l) {
				continue
			}
			c.byLocation[l] = without(c.byLocation[l], space)
			moved(l)
			if len(c.byLocation[l]) == 0 {
				delete(c.byLocation, l)
			}
		}
	}
	if as == nil {
		delete(c.as, space)
		return
	}
	c.as[space] = as
	for _, l := range as.members {
		if as.contends(l) && (old == nil || !old.contends(l)) {
			c.byLocation[l] = with(c.byLocation[l], space)
			moved(l)
		}
	}
}

func with(spaces []key.Space, s key.Space) []key.Space {
	i, _ := slices.BinarySearch(spaces, s)
	return slices.Insert(spaces, i, s)
}

func without(spaces []key.Space, s key.Space) []key.Space {
	i, _ := slices.BinarySearch(spaces, s)
	return slices.Delete(spaces, i, i+1)
}

// claimedBy returns the spaces that claim an identity at a location.
func (c claims) claimedBy(s identityAt) []key.Space {
	claim := c[s.Identity]
	switch {
	case claim.conflict != nil:
		return claim.conflict.byLocation[s.location]
	case claim.as != nil && claim.as.contends(s.location):
		return []key.Space{claim.space}
	}
	return nil
}

// claimants returns the spaces in conflict at a location; nil if at most one claims the identity.
func (c claims) claimants(s identityAt) []key.Space {
	if c[s.Identity].conflict == nil {
		return nil
	}
	if spaces := c.claimedBy(s); len(spaces) > 1 {
		return spaces
	}
	return nil
}

// contested calls fn for the locations of an object where other spaces claim its identity, too.
func (c claims) contested(id key.Identity, as *Membership, fn func(location key.Location)) {
	conflict := c[id].conflict
	if conflict == nil || as == nil {
		return
	}
	for _, l := range as.members {
		if as.contends(l) && len(conflict.byLocation[l]) > 1 {
			fn(l)
		}
	}
}

// as returns the Membership by which a space claims an object; nil if it does not.
func (c claims) as(o key.Object) *Membership {
	if claim := c[o.Identity]; claim.conflict != nil {
		return claim.conflict.as[o.Space]
	} else if claim.space == o.Space {
		return claim.as
	}
	return nil
}

// winner returns the space whose object gets the identity at a location. The object that the
// location already has comes first, then the one with the lowest create revision, then the space
// with the lowest name.
func winner(state table.Reader, s identityAt, claimants []key.Space) key.Space {
	type claimant struct {
		space    key.Space
		reported bool
		rev      int64
	}
	compare := func(a, b claimant) int {
		if a.reported != b.reported {
			if a.reported {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.rev, b.rev), cmp.Compare(a.space, b.space))
	}
	var best claimant
	for _, space := range claimants {
		o := key.Object{Space: space, Identity: s.Identity}
		row := state.Get(o.Key())
		if row == nil {
			continue
		}
		report := state.Get(key.Report{Location: s.location, Origin: key.Placed, Object: o}.Key())
		next := claimant{space, owns(report, row.Meta.UID), row.CreateRev}
		if best.space == "" || compare(next, best) < 0 {
			best = next
		}
	}
	return best.space
}

// owns reports whether a report proves that its location has the object with this UID. It has if
// the object is applied, or if it was applied and a newer version was refused or is held. Then the
// identity must not go to another space.
func owns(report *table.Row, uid string) bool {
	if report == nil {
		return false
	}
	r := gjson.GetManyBytes(report.Report(), "state", "uid", "digest")
	if r[1].Str != uid {
		return false
	}
	switch wire.State(r[0].Str) {
	case wire.Applied:
		return true
	case wire.Failed, wire.Held, wire.Unsupported, wire.Waiting:
		return r[2].Str != ""
	}
	return false
}
