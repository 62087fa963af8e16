package placement

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// updateLocations updates the locations and returns the names of those that were created, deleted
// or relabelled, or whose admission has changed.
func (s *step) updateLocations() []key.Location {
	var moved []key.Location
	for _, c := range s.located {
		l := key.Location(c.Name)
		old, now := s.locations[l], siteOf(c.Cur)
		if s.gates.set(s.state, l, termsOf(c.Cur)) {
			s.readmitted[l] = true
		}
		if old.same(now) && !s.readmitted[l] {
			continue
		}
		moved = append(moved, l)
		s.relocated[l] = true
		if now != nil {
			s.locations[l] = now
		} else {
			delete(s.locations, l)
		}
		if old.open() != now.open() || s.readmitted[l] {
			for k := range s.direct.Keys(string(l)) {
				s.reaches(reach{prefix: k})
			}
		}
	}
	return moved
}

// selectLocations computes the set of locations of a policy, with its needs.
func (s *step) selectLocations(t tenant, p *scope) {
	var names, barred []key.Location
	for name, loc := range s.locations {
		if in, bars := p.evaluateSite(loc, s.gates.admit(name), t); in {
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
	p.set = s.sets.intern(names, needs)
	if p.scheduling != nil {
		p.scheduling.barred, p.scheduling.known = s.sets.intern(barred, nil), nil
	}
}

// moveLocations updates the set of a policy for changed locations. It reports whether the
// assignment or the policy of objects may change.
func (s *step) moveLocations(t tenant, p *scope, moved []key.Location) bool {
	old, again := p.set, false
	for _, name := range moved {
		loc, in, barred := s.locations[name], false, false
		if loc != nil {
			in, barred = p.evaluateSite(loc, s.gates.admit(name), t)
		}
		again = again || p.scheduling.affects(name, in, barred)
		p.scheduling.move(&s.sets, name, barred)
		if !in {
			p.set = s.sets.without(p.set, name)
			continue
		}
		again = again || s.readmitted[name]
		needs := ""
		if p.needs != nil {
			needs = p.needs(loc.Site)
		}
		p.set = s.sets.with(p.set, name, needs)
	}
	return p.set != old || again
}
