package placement

import (
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Prepare implements table.Preparer: it compiles policies and templates, and reads references and definitions, which
// are as large as users write them.
func (e *Engine) Prepare(state table.NextState, changes []table.Change) {
	e.forgetPrepared()
	clear(e.references.prepared)
	for _, c := range changes {
		o, err := key.ParseObject(c.Row().Key)
		if err != nil {
			continue
		}
		switch {
		case o.Resource == key.ConfigMaps:
			e.prepareData(state, change{o, c})
			fallthrough
		default:
			if o.Resource == key.CRDs && c.Cur != nil {
				e.preparedDefinitions[c.Cur.Entry] = readDefinition(c.Cur)
			}
			prepareReferences(e, o, c.Cur)
			if expands(o, c.Cur) {
				e.preparedTemplates[c.Cur.Entry] = ownRules(state, o, c.Cur, e.Rules)
			}
		case o.Resource == key.Spaces && o.Space == key.Root:
			if !slices.Equal(labelsOf(c.Prev), labelsOf(c.Cur)) {
				e.prepareSpace(state, key.Space(o.Name))
			}
		case c.Cur == nil:
		case o.Resource == key.Placements:
			e.preparePlacement(state, key.Placement{Space: o.Space, Name: o.Name}, c.Cur)
		case o.Resource == key.Customizers:
			e.prepareCustomizer(state, o, c.Cur)
		case o.Resource == key.KindRules:
			e.preparedKindRules[c.Cur.Entry], e.isSame[c.Cur.Entry] = e.kindRules.prepare(o, c.Cur, e.Health)
		}
	}
}

func (p *preparation) forgetPrepared() {
	clear(p.isSame)
	clear(p.preparedPlacements)
	clear(p.preparedCustomizers)
	clear(p.preparedKindRules)
	clear(p.preparedData)
	clear(p.preparedTemplates)
	clear(p.preparedDefinitions)
}

func (e *Engine) preparePlacement(state table.NextState, p key.Placement, row *table.Row) {
	i, isKnown := e.placements[p.Space].find(p.Name)
	isSame := isKnown && e.placements[p.Space][i].isSame(row)
	if p.Space == key.Root && !isSame {
		i, isKnown = e.roots.all.find(p.Name)
		isSame = isKnown && e.roots.all[i].isSame(row)
	}
	var compiled *placement // one that acts as before needs none
	if !isSame {
		if compiled = compile(p, row); compiled != nil && compiled.reaches == nil {
			e.references.prepare(state, p.Space, compiled)
		}
	}
	e.isSame[row.Entry], e.preparedPlacements[row.Entry] = isSame, compiled
}

func (e *Engine) prepareCustomizer(state table.Getter, o key.Object, row *table.Row) {
	i, isKnown := e.customizers[o.Space].find(o.Name)
	isSame := isKnown && e.customizers[o.Space][i].isSame(row)
	var compiled *customizer
	if !isSame {
		compiled = compileCustomizer(state, o.Space, o.Name, row, e.Rules)
	}
	e.isSame[row.Entry], e.preparedCustomizers[row.Entry] = isSame, compiled
}

// prepareData compiles the Customizers again that use a ConfigMap whose data has changed.
func (e *Engine) prepareData(state table.Getter, changed change) {
	k := changed.Key()
	for _, c := range e.customizers[changed.Space] {
		if !slices.Contains(c.data, k) || e.preparedData[c] != nil || dataTextOf(changed.Prev) == dataTextOf(changed.Cur) {
			continue
		}
		o := key.Object{Space: changed.Space, Identity: key.Identity{Resource: key.Customizers, Name: c.name}}
		e.preparedData[c] = compileCustomizer(state, changed.Space, c.name, state.Get(o.Key()), e.Rules)
	}
}

// prepareSpace compiles the Customizers and templates of a space again, whose labels have changed.
func (e *Engine) prepareSpace(state table.Getter, space key.Space) {
	for _, c := range e.customizers[space] {
		if e.preparedData[c] == nil {
			o := key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: c.name}}
			e.preparedData[c] = compileCustomizer(state, space, c.name, state.Get(o.Key()), e.Rules)
		}
	}
	for _, t := range e.templates.byText[space] {
		for k := range t.objects {
			o, err := key.ParseObject(k)
			if row := state.Get(k); err == nil && expands(o, row) {
				e.preparedTemplates[row.Entry] = ownRules(state, o, row, e.Rules)
			}
		}
	}
}

// updatePolicies updates the compiled policies and schedules the objects that must be evaluated
// again. moved are the locations that have changed.
func (s *step) updatePolicies() (moved []key.Location) {
	moved = s.updateLocations()
	s.moveTemplates(moved)
	s.updateSpaces()
	s.updateBound()
	s.noteEnded()
	compiled := map[*scope]bool{}
	updateKind(s, s.placed, s.placements, func(c change) *placement {
		if p := s.preparedPlacements.Take(c.Cur, func() *placement { return compile(key.Placement{Space: c.Space, Name: c.Name}, c.Cur) }); p != nil && p.reaches == nil {
			return p
		}
		return nil
	}, compiled)
	s.updateRoots(moved)
	updateKind(s, s.customized, s.customizers, func(c change) *customizer {
		return s.preparedCustomizers.Take(c.Cur, func() *customizer { return compileCustomizer(s.state, c.Space, c.Name, c.Cur, s.Rules) })
	}, compiled)
	updateKind(s, s.ruled, s.kindRules, func(c change) *kindRules {
		return s.preparedKindRules.Take(c.Cur, func() *kindRules { return compileKindRules(c.Object, c.Cur, s.Health) })
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

// reaches schedules all objects of a key range for evaluation.
func (s *step) reaches(r reach) { s.recheck[r] = nil }

// changes schedules the objects that a created, changed or deleted policy affects. An object that
// the policy neither matches nor matched is unaffected. If labels of namespaces have changed, or
// the policy has upsync entries, all objects that the policy may match are scheduled. In a space
// that is being deleted, no object is placed, so none is scheduled.
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
			return // all are evaluated, or another entry of p has the same range
		}
		s.recheck[r] = append(all, p)
	})
}

// policyFilter selects the objects that any of some policies affects; nil selects all.
type policyFilter []*scope

// matches reports whether one of the policies matches an object, or the object follows another by
// it.
func (c policyFilter) matches(s subject, references *references) bool {
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

// updateSpaces records which spaces are being deleted, and updates their admission.
func (s *step) updateSpaces() {
	for _, c := range s.spaces {
		space := key.Space(c.Name)
		s.admitSpace(space, c)
		s.upsyncsChanged[space] = true
		_, wasGoing := s.going[space]
		going := c.Cur != nil && c.Cur.Meta.Deleting
		switch {
		case going == wasGoing:
			continue
		case going:
			s.going[space] = struct{}{}
		default:
			delete(s.going, space)
		}
		s.reaches(reach{prefix: key.SpacePrefix(space)})
	}
}

// admitSpace updates the admission by locations after a change of a space.
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

// prepareAgain recomputes the rules of a Customizer after a change of the labels of its space or of
// a ConfigMap.
func (s *step) prepareAgain(space key.Space, c *customizer) {
	now, ok := s.preparedData[c]
	if !ok {
		o := key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: c.name}}
		now = compileCustomizer(s.state, space, c.name, s.state.Get(o.Key()), s.Rules)
	}
	if now == nil || now.spec != c.spec { // the change itself follows in this step
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

// updateData recomputes the Customizers that use a ConfigMap whose data has changed, except those
// that were compiled in this step.
func (s *step) updateData(compiled map[*scope]bool) {
	again := map[*customizer]key.Space{}
	for _, ch := range s.configMaps {
		k := ch.Key()
		for _, c := range s.customizers[ch.Space] {
			if slices.Contains(c.data, k) && !compiled[&c.scope] && dataTextOf(ch.Prev) != dataTextOf(ch.Cur) {
				again[c] = ch.Space
			}
		}
	}
	for c, space := range again {
		s.prepareAgain(space, c)
	}
}

// updateKind compiles the changed policies of a kind, and adds them to compiled.
func updateKind[P policy](s *step, changes []change, byKind map[key.Space]policies[P], compile func(change) P, compiled map[*scope]bool) {
	for _, c := range changes {
		all := byKind[c.Space]
		if i, ok := all.find(c.Name); ok {
			old := all[i].base()
			if s.isSame.Take(c.Cur, func() bool { return old.isSame(c.Cur) }) {
				continue
			}
			s.changes(c.Space, old)
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
			byKind[c.Space] = all
		} else {
			delete(byKind, c.Space)
		}
	}
}
