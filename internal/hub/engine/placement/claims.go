package placement

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// claims has the spaces that place an object of an identity. Almost every identity at a
// location has one claimant, so the index by location is kept only for identities that
// several spaces place.
type claims map[key.Identity]claim

type claim struct {
	// space and as are the only claimant, when contest is nil.
	space   key.Space
	as      *Membership
	contest *contest
}

// contest is an identity that several spaces place.
type contest struct {
	as         map[key.Space]*Membership
	byLocation map[key.Location][]key.Space // in order
}

// spot is an identity at a location.
type spot struct {
	key.Identity
	location key.Location
}

// set notes how a space places an object, nil for not at all, and calls moved for every
// location where the claimants of a contested identity have changed.
func (c claims) set(o key.Object, as *Membership, moved func(location key.Location)) {
	was := c[o.Identity]
	switch {
	case was.contest != nil:
		was.contest.set(o.Space, as, moved)
		if len(was.contest.as) == 1 {
			for space, as := range was.contest.as {
				c[o.Identity] = claim{space: space, as: as}
			}
		}
	case was.as == nil || was.space == o.Space:
		if as == nil {
			delete(c, o.Identity)
			return
		}
		c[o.Identity] = claim{space: o.Space, as: as}
	case as != nil:
		now := &contest{as: map[key.Space]*Membership{}, byLocation: map[key.Location][]key.Space{}}
		c[o.Identity] = claim{contest: now}
		now.set(was.space, was.as, func(key.Location) {})
		now.set(o.Space, as, moved)
	}
}

func (c *contest) set(space key.Space, as *Membership, moved func(location key.Location)) {
	was := c.as[space]
	if was != nil {
		for _, l := range was.members {
			if !was.contends(l) || as != nil && as.contends(l) {
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
		if as.contends(l) && (was == nil || !was.contends(l)) {
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

// at are the spaces that claim a spot.
func (c claims) at(s spot) []key.Space {
	claim := c[s.Identity]
	switch {
	case claim.contest != nil:
		return claim.contest.byLocation[s.location]
	case claim.as != nil && claim.as.contends(s.location):
		return []key.Space{claim.space}
	}
	return nil
}

// claimants are the spaces that contest a spot; nil if at most one claims it.
func (c claims) claimants(s spot) []key.Space {
	if c[s.Identity].contest == nil {
		return nil
	}
	if spaces := c.at(s); len(spaces) > 1 {
		return spaces
	}
	return nil
}

// contested calls fn for the locations where an object is not the only claimant.
func (c claims) contested(id key.Identity, as *Membership, fn func(location key.Location)) {
	contest := c[id].contest
	if contest == nil || as == nil {
		return
	}
	for _, l := range as.members {
		if as.contends(l) && len(contest.byLocation[l]) > 1 {
			fn(l)
		}
	}
}

// as is how a space places an object, nil for not at all.
func (c claims) as(o key.Object) *Membership {
	if claim := c[o.Identity]; claim.contest != nil {
		return claim.contest.as[o.Space]
	} else if claim.space == o.Space {
		return claim.as
	}
	return nil
}

// winner is the space whose object gets a spot: first the one that the location reports
// to have, then the one with the lowest create revision, then the one with the lowest
// name.
func winner(state table.Reader, s spot, claimants []key.Space) key.Space {
	type claimant struct {
		space key.Space
		has   bool
		rev   int64
	}
	compare := func(a, b claimant) int {
		if a.has != b.has {
			if a.has {
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

// owns says whether a report proves that its location has the object with a UID: it is
// applied, or was applied and a newer version is refused or held there, which must not
// give the spot to another space.
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
