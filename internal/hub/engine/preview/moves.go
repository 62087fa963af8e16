package preview

import (
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// advice follows the note that a Placement matches nothing.
const advice = "orrery why KIND/NAME --location L names the first test that does not match"

// moved counts the objects that are affected by a change of a Placement.
type moved struct {
	arrive, remove, leave, hold, resume, treat, refuse counts
	// selected is the number of objects that the Placement matches now.
	selected int
}

// change is the Membership of an object before and after.
type change struct{ old, now *placement.Membership }

// moved counts the effects of a Placement.
func (a *answer) moved(s placement.Supposition) *moved {
	objects := map[change]int{} // many objects have the same Membership
	m := &moved{}
	policy := key.Placement{Space: s.Policy.Space, Name: s.Policy.Name}
	a.whole = s.Derive(func(o key.Object, row *table.Row, now *placement.Membership) {
		before, _ := row.In.(*placement.Membership)
		if now != nil && a.lists(o) && slices.ContainsFunc(now.Sources(), func(source placement.Source) bool { return source.Placement.Resolve(o.Space) == policy }) {
			m.selected++
		}
		if (before != nil || now != nil) && a.lists(o) {
			objects[change{before, now}]++
		}
	})
	for c, n := range objects {
		m.count(c, n)
	}
	return m
}

// moves describes the effects of a Placement.
func (a *answer) moves(s placement.Supposition, old *table.Row) (lines []string) {
	m := a.moved(s)
	for _, kind := range []struct {
		*counts
		does, preposition, sign, more string
	}{
		{&m.arrive, "would place", "at", "+", ""},
		{&m.remove, "would remove", "from", "-", ""},
		{&m.leave, "would leave behind", "at", "-", ""},
		{&m.hold, "would hold", "at", "", ""},
		{&m.resume, "would no longer hold", "at", "", ""},
		{&m.treat, "would treat otherwise", "at", "", ""},
		{&m.refuse, "would not place", "at", "", ", not admitted there"},
	} {
		switch {
		case kind.objects == 0:
		case kind.counts == &m.arrive && a.unsettled(old):
			lines = append(lines, kind.does+" "+a.objectsAt(kind.counts, kind.preposition)+": which ones are picked is decided when the Placement is created")
		default:
			lines = append(lines, kind.does+" "+a.objectsAt(kind.counts, kind.preposition)+kind.more+": "+kind.where(kind.sign))
		}
	}
	lines = a.orNothing(lines, "would move nothing")
	if a.row != nil && a.whole && a.unlisted == nil && m.selected == 0 {
		lines = append(lines, "the Placement would match no object; "+advice)
	}
	return append(lines, a.unlisted...)
}

// unsettled reports whether the Placement is new and picks locations: the pick depends on its UID,
// which differs between a dry run and the write.
func (a *answer) unsettled(old *table.Row) bool {
	return old == nil && a.row != nil && gjson.GetBytes(a.row.Value, "spec.pick").Exists()
}

// count counts n objects with the same change.
func (m *moved) count(c change, n int) {
	var arrive, remove, leave, hold, resume, treat, refuse []key.Location
	for _, old := range placesOf(c.old) {
		now, stays := placeAt(c.now, old.Location)
		switch {
		case old.Owner != "": // another space's object has the identity there
		case !stays && (old.Policy.Orphan || c.now != nil && c.now.Yields(old.Location)):
			leave = append(leave, old.Location)
		case !stays:
			remove = append(remove, old.Location)
		case old.Held == "" && now.Held != "":
			hold = append(hold, old.Location)
		case old.Held != "" && now.Held == "":
			resume = append(resume, old.Location)
		case old.Policy != now.Policy:
			treat = append(treat, old.Location)
		}
	}
	for _, now := range placesOf(c.now) {
		if c.old == nil || !c.old.Contains(now.Location) {
			arrive = append(arrive, now.Location)
		}
	}
	if c.now != nil {
		for _, l := range c.now.Refused() {
			if c.old == nil || !c.old.RefusedBy(l) {
				refuse = append(refuse, l)
			}
		}
	}
	m.arrive.add(n, arrive)
	m.remove.add(n, remove)
	m.leave.add(n, leave)
	m.hold.add(n, hold)
	m.resume.add(n, resume)
	m.treat.add(n, treat)
	m.refuse.add(n, refuse)
}

func placesOf(m *placement.Membership) []placement.Place {
	if m == nil {
		return nil
	}
	return m.Places()
}

func placeAt(m *placement.Membership, l key.Location) (p placement.Place, ok bool) {
	if m == nil {
		return p, false
	}
	return m.Place(l)
}
