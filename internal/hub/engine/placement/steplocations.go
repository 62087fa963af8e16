package placement

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// updateLocations returns the names of locations that were created, deleted or relabeled,
// or that admit other objects.
func (s *step) updateLocations() []key.Location {
	var moved []key.Location
	for _, c := range s.located {
		l := key.Location(c.Name)
		was, now := s.locations[l], siteOf(c.Cur)
		if s.gates.set(s.state, l, termsOf(c.Cur)) {
			s.readmitted[l] = true
		}
		if was.same(now) && !s.readmitted[l] {
			continue
		}
		moved = append(moved, l)
		s.relocated[l] = true
		if now != nil {
			s.locations[l] = now
		} else {
			delete(s.locations, l)
		}
		if was.open() != now.open() || s.readmitted[l] {
			for k := range s.direct.Keys(string(l)) {
				s.reaches(reach{prefix: k})
			}
		}
	}
	return moved
}

// selectLocations gives a policy about a space its set, with its needs.
func (s *step) selectLocations(t tenant, p *scope) {
	var names, barred []key.Location
	for name, at := range s.locations {
		if in, bars := p.takes(at, s.gates.admit(name), t); in {
			names = append(names, name)
			if bars {
				barred = append(barred, name)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(barred)
	var needs []string
	if p.needs != nil {
		for _, name := range names {
			needs = append(needs, p.needs(s.locations[name].Site))
		}
	}
	p.set = s.sets.of(names, needs)
	if p.seating != nil {
		p.seating.barred, p.seating.known = s.sets.of(barred, nil), nil
	}
}

// moveLocations updates the set of a policy about a space for locations that have changed,
// and says whether that may change where objects are, or how.
func (s *step) moveLocations(t tenant, p *scope, moved []key.Location) bool {
	was, again := p.set, false
	for _, name := range moved {
		at, in, barred := s.locations[name], false, false
		if at != nil {
			in, barred = p.takes(at, s.gates.admit(name), t)
		}
		again = again || p.seating.concerns(name, in, barred)
		p.seating.move(&s.sets, name, barred)
		if !in {
			p.set = s.sets.without(p.set, name)
			continue
		}
		again = again || s.readmitted[name]
		needs := ""
		if p.needs != nil {
			needs = p.needs(at.Site)
		}
		p.set = s.sets.with(p.set, name, needs)
	}
	return p.set != was || again
}
