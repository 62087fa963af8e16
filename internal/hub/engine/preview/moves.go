package preview

import (
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// moved is what becomes of objects when a Placement changes.
type moved struct {
	arrive, remove, leave, hold, resume, treat, refuse counts
}

// change is what the policies say of an object, and what they would say.
type change struct{ was, now *placement.Membership }

// moved finds out what a Placement would move.
func (a *answer) moved(s placement.Supposition) *moved {
	objects := map[change]int{} // many objects are placed alike
	a.whole = s.Derive(func(o key.Object, row *table.Row, now *placement.Membership) {
		before, _ := row.In.(*placement.Membership)
		if (before != nil || now != nil) && a.lists(o) {
			objects[change{before, now}]++
		}
	})
	m := &moved{}
	for c, n := range objects {
		m.note(c, n)
	}
	return m
}

// moves says what a Placement would move.
func (a *answer) moves(s placement.Supposition, was *table.Row) (lines []string) {
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
		case kind.counts == &m.arrive && a.unsettled(was):
			lines = append(lines, kind.does+" "+a.objectsAt(kind.counts, kind.preposition)+": which ones are picked is decided when the Placement is created")
		default:
			lines = append(lines, kind.does+" "+a.objectsAt(kind.counts, kind.preposition)+kind.more+": "+kind.where(kind.sign))
		}
	}
	return a.orNothing(lines, "would move nothing")
}

// unsettled says that a Placement that is created picks locations: which, depends on its
// UID, and a dry run has another than the write.
func (a *answer) unsettled(was *table.Row) bool {
	return was == nil && a.row != nil && gjson.GetBytes(a.row.Value, "spec.pick").Exists()
}

// note counts n objects for which the policies change alike.
func (m *moved) note(c change, n int) {
	var arrive, remove, leave, hold, resume, treat, refuse []key.Location
	for _, was := range placesOf(c.was) {
		now, stays := placeAt(c.now, was.Location)
		switch {
		case was.Owner != "": // another space's object is there
		case !stays && (was.Policy.Orphan || c.now != nil && c.now.Yields(was.Location)):
			leave = append(leave, was.Location)
		case !stays:
			remove = append(remove, was.Location)
		case was.Held == "" && now.Held != "":
			hold = append(hold, was.Location)
		case was.Held != "" && now.Held == "":
			resume = append(resume, was.Location)
		case was.Policy != now.Policy:
			treat = append(treat, was.Location)
		}
	}
	for _, now := range placesOf(c.now) {
		if c.was == nil || !c.was.Has(now.Location) {
			arrive = append(arrive, now.Location)
		}
	}
	if c.now != nil {
		for _, l := range c.now.Refused() {
			if c.was == nil || !c.was.RefusedBy(l) {
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
