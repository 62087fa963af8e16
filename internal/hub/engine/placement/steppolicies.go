package placement

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// updatePolicies updates the compiled policies, and notes which objects must be evaluated
// again for that. moved are the locations that have changed.
func (s *step) updatePolicies() (moved []key.Location) {
	moved = s.updateLocations()
	s.moveTemplates(moved)
	s.updateSpaces()
	s.updateBound()
	s.noteEnded()
	compiled := map[*scope]bool{}
	updateKind(s, s.placed, s.placements, func(c change) *placement {
		if p := compile(key.Placement{Space: c.Space, Name: c.Name}, c.Cur); p != nil && p.reaches == nil {
			return p
		}
		return nil
	}, compiled)
	s.updateRoots(moved)
	updateKind(s, s.customized, s.customizers, func(c change) *customizer {
		return compileCustomizer(s.state, c.Space, c.Name, c.Cur, s.Rules)
	}, compiled)
	s.updateData(compiled)
	if len(moved) > 0 {
		s.scopes(func(space key.Space, p *scope) {
			if !compiled[p] && p.set != nil && s.moveLocations(tenantOf(s.state, space), p, moved) {
				p.reach(space, s.reaches)
			}
		})
	}
	for _, c := range s.namespaces {
		if c.Prev != nil && c.Cur != nil && slices.Equal(c.Prev.Meta.Labels, c.Cur.Meta.Labels) {
			continue
		}
		s.scopesOf(c.Space, func(p *scope) { p.reachByNamespace(c.Space, c.Name, s.reaches) })
	}
	return moved
}

// reaches has all objects of a part of a space evaluated again.
func (s *step) reaches(r reach) { s.recheck[r] = nil }

// changes has the objects evaluated again that a policy about a space concerns, which was
// changed, or is no more: what it neither matches nor matched is as it was. Which objects
// that are may depend on the labels of namespaces, and what a policy leaves to its locations
// on others' asks; then they are all that it may match. In a space that is being deleted nothing is
// placed, whatever its policies are.
func (s *step) changes(space key.Space, p *scope) {
	if _, going := s.going[space]; going {
		return
	}
	if len(s.namespaces) > 0 || len(p.yields) > 0 {
		p.reach(space, s.reaches)
		return
	}
	p.reach(space, func(r reach) {
		all, ok := s.recheck[r]
		if ok && all == nil || len(all) > 0 && all[len(all)-1] == p {
			return // all are evaluated, or another entry of p may match the same
		}
		s.recheck[r] = append(all, p)
	})
}

// concern are policies of which one has to concern an object; nil: it need not be one.
type concern []*scope

// has says whether one of the policies concerns an object: it matches it, or the object
// follows another by it.
func (c concern) has(s subject, references *references) bool {
	if c == nil {
		return true
	}
	if slices.ContainsFunc(c, func(p *scope) bool { return slices.ContainsFunc(p.tests, func(t objectTest) bool { return t.fit(s) }) }) {
		return true
	}
	for f := range references.to[s.Object].all {
		if slices.ContainsFunc(c, func(p *scope) bool { return f.placement == p.ref }) {
			return true
		}
	}
	return false
}

// updateSpaces notes which spaces are being deleted, and what locations admit of them.
func (s *step) updateSpaces() {
	for _, c := range s.spaces {
		space := key.Space(c.Name)
		s.admitSpace(space, c)
		s.asking[space] = true
		_, was := s.going[space]
		going := c.Cur != nil && c.Cur.Meta.Deleting
		switch {
		case going == was:
			continue
		case going:
			s.going[space] = struct{}{}
		default:
			delete(s.going, space)
		}
		s.reaches(reach{prefix: key.SpacePrefix(space)})
	}
}

// admitSpace notes what follows of a change of a space for what locations admit.
func (s *step) admitSpace(space key.Space, c change) {
	relabelled := !slices.Equal(labelsOf(c.Prev), labelsOf(c.Cur))
	if !relabelled && c.Prev != nil && c.Cur != nil {
		return
	}
	for _, g := range s.gates.noteSpace(s.state, space) {
		for _, l := range g.locations.names {
			s.unsettled[key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}] = struct{}{}
		}
	}
	if relabelled {
		for _, c := range s.customizers[space] {
			s.prepareAgain(space, c)
		}
		s.readTemplatesAgain(space)
	}
	if !relabelled || !s.gates.byLabels() {
		return
	}
	for _, p := range s.placements[space] {
		s.selectLocations(tenantOf(s.state, space), &p.scope)
	}
	s.reaches(reach{prefix: key.SpacePrefix(space)})
}

// prepareAgain gives a Customizer the rules that it has by the labels of its space, and by
// the data of ConfigMaps.
func (s *step) prepareAgain(space key.Space, c *customizer) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: c.name}}
	now := compileCustomizer(s.state, space, c.name, s.state.Get(o.Key()), s.Rules)
	if now == nil || now.spec != c.spec { // which follows
		return
	}
	rules, set := c.rules.text, c.set
	c.rules, c.needs, c.set = now.rules, now.needs, nil
	if c.selective() {
		s.selectLocations(tenantOf(s.state, space), &c.scope)
	}
	if c.rules.text != rules || c.set != set {
		c.reach(space, s.reaches)
	}
}

// updateData prepares the Customizers again that use a ConfigMap whose data has changed,
// but those that were compiled in this step.
func (s *step) updateData(compiled map[*scope]bool) {
	again := map[*customizer]key.Space{}
	for _, of := range s.configMaps {
		k := of.Key()
		for _, c := range s.customizers[of.Space] {
			if slices.Contains(c.data, k) && !compiled[&c.scope] && dataTextOf(of.Prev) != dataTextOf(of.Cur) {
				again[c] = of.Space
			}
		}
	}
	for c, space := range again {
		s.prepareAgain(space, c)
	}
}

// updateKind compiles the policies of a kind that changed, and adds them to compiled.
func updateKind[P policy](s *step, changes []change, of map[key.Space]policies[P], compile func(change) P, compiled map[*scope]bool) {
	for _, c := range changes {
		all := of[c.Space]
		if i, ok := all.find(c.Name); ok {
			was := all[i].base()
			if acts(c.Cur) && was.spec == specOf(c.Cur) && was.follows == followsOf(c.Cur) && (was.seating == nil || was.seating.uid == c.Cur.Meta.UID) {
				continue
			}
			s.changes(c.Space, was)
		}
		var none P
		now := compile(c)
		if now != none {
			p := now.base()
			if p.selective() {
				s.selectLocations(tenantOf(s.state, c.Space), p)
			}
			s.changes(c.Space, p)
			compiled[p] = true
		}
		if all = all.set(c.Name, now); len(all) > 0 {
			of[c.Space] = all
		} else {
			delete(of, c.Space)
		}
	}
}
