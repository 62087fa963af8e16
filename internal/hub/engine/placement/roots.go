package placement

import (
	"encoding/binary"
	"iter"
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// roots holds the Placements of root that select other spaces. The locations that such a Placement
// selects differ between spaces only by admission. So spaces to which the same locations admit
// objects share a compiled Placement.
type roots struct {
	all policies[*rooted]
	// bySpace holds, for each existing space, the Placements that apply to it, by name.
	bySpace map[key.Space][]*placement
}

// rooted is a Placement of root that selects other spaces. Its own set of locations ignores
// admission.
type rooted struct {
	*placement
	// views holds the Placement as it applies to spaces, by the locations that admit them.
	views map[string]*placement
}

func newRoots() roots { return roots{bySpace: map[key.Space][]*placement{}} }

// tenantsIn yields the spaces of a state, except root, with their rows.
func tenantsIn(state table.Reader) iter.Seq2[tenant, *table.Row] {
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	return func(yield func(tenant, *table.Row) bool) {
		state.Ascend(prefix, func(row *table.Row) bool {
			return yield(tenant{key.Space(row.Key[len(prefix):]), row.Meta.Labels}, row)
		})
	}
}

// view returns a text that identifies which locations admit any object of an existing space.
func (gs *gates) view(s key.Space) string {
	var v []byte
	for i, g := range gs.groups {
		if !g.everySpace && g.admission.Admits(s) {
			v = binary.AppendUvarint(v, uint64(i))
		}
	}
	return string(v)
}

// views computes view for all spaces at once. Its cost is in proportion to the spaces that
// locations admit.
func (gs *gates) views() func(key.Space) string {
	all := map[key.Space][]byte{}
	for i, g := range gs.groups {
		if g.everySpace {
			continue
		}
		for _, s := range g.admission.spaces {
			all[s] = binary.AppendUvarint(all[s], uint64(i))
		}
	}
	return func(s key.Space) string { return string(all[s]) }
}

// updateRoots recompiles the Placements of root that select other spaces, and schedules the objects
// that must be evaluated again.
func (s *step) updateRoots(moved []key.Location) {
	anew := s.compileRoots()
	if len(s.roots.all) == 0 && len(anew) == 0 {
		return
	}
	if len(s.readmitted) > 0 { // spaces may be grouped differently now
		for _, r := range s.roots.all {
			clear(r.views)
		}
	}
	changed := map[*placement]bool{}
	for _, r := range s.roots.all {
		if anew[r.name] || len(moved) == 0 {
			continue
		}
		s.moveLocations(tenant{}, &r.scope, moved)
		for _, p := range r.views {
			if s.moveLocations(p.tenant, &p.scope, moved) {
				changed[p] = true
			}
		}
	}
	s.reachRoots(anew, changed)
}

// compileRoots compiles the Placements of root that have changed, and returns their names.
func (s *step) compileRoots() map[string]bool {
	anew := map[string]bool{}
	for _, c := range s.placed {
		if c.Space != key.Root {
			continue
		}
		i, found := s.roots.all.find(c.Name)
		if found && s.isSame.Take(c.Cur, func() bool { return s.roots.all[i].isSame(c.Cur) }) {
			continue
		}
		var now *rooted
		if p := s.preparedPlacements.Take(c.Cur, func() *placement { return compile(key.Placement{Space: key.Root, Name: c.Name}, c.Cur) }); p != nil && p.reaches != nil {
			now = &rooted{p, map[string]*placement{}}
			p.admitted = false
			s.selectLocations(tenant{}, &p.scope)
		}
		if found || now != nil {
			anew[c.Name] = true
			s.roots.all = s.roots.all.set(c.Name, now)
		}
	}
	return anew
}

// reachRoots recomputes which Placements apply to which spaces. anew are the names of Placements
// that are new or gone; changed are those with another set of locations.
func (s *step) reachRoots(anew map[string]bool, changed map[*placement]bool) {
	again := len(s.readmitted) > 0
	if again || len(anew) > 0 {
		view, there := s.gates.views(), map[key.Space]bool{}
		touched := map[key.Space]bool{}
		for _, c := range s.spaces {
			touched[key.Space(c.Name)] = true
		}
		for t := range tenantsIn(s.state) {
			there[t.name] = true
			s.setRoots(t.name, s.rootsOf(t, view, func(r *rooted) bool { return again || anew[r.name] || touched[t.name] }), changed)
		}
		for space := range s.roots.bySpace {
			if !there[space] {
				s.setRoots(space, nil, changed)
			}
		}
		return
	}
	for _, c := range s.spaces {
		if c.Prev != nil && c.Cur != nil && slices.Equal(c.Prev.Meta.Labels, c.Cur.Meta.Labels) {
			continue
		}
		var now []*placement
		if c.Cur != nil {
			now = s.rootsOf(tenant{key.Space(c.Name), c.Cur.Meta.Labels}, s.gates.view, func(*rooted) bool { return true })
		}
		s.setRoots(key.Space(c.Name), now, changed)
	}
	if len(changed) == 0 {
		return
	}
	for space, all := range s.roots.bySpace {
		for _, p := range all {
			if changed[p] {
				p.reach(space, s.reaches)
			}
		}
	}
}

// rootsOf returns the Placements that apply to a space. again selects those whose selector must be
// evaluated again; for others, the earlier result is used.
func (s *step) rootsOf(t tenant, view func(key.Space) string, again func(*rooted) bool) []*placement {
	if t.name == key.Root {
		return nil
	}
	known := policies[*placement](s.roots.bySpace[t.name])
	var now []*placement
	for _, r := range s.roots.all {
		if !again(r) {
			if i, found := known.find(r.name); found {
				now = append(now, known[i])
			}
			continue
		}
		if !r.reaches.fit(t) {
			continue
		}
		v := view(t.name)
		if r.views[v] == nil {
			r.views[v] = s.viewed(r, t)
		}
		now = append(now, r.views[v])
	}
	return now
}

// viewed returns a Placement of root as it applies to a space and to those with the same view.
func (s *step) viewed(r *rooted, t tenant) *placement {
	p, scheduling := *r.placement, *r.scheduling
	p.ref, p.tenant, p.admitted, p.scheduling = key.Placement{Space: key.Root, Name: r.name}.In(t.name), t, true, &scheduling
	seen := func(names []key.Location) *locationSet {
		all := slices.DeleteFunc(slices.Clone(names), func(l key.Location) bool { return !p.isVisible(s.locations[l], s.gates.admit(l), t) })
		return s.sets.intern(all, nil)
	}
	p.set, scheduling.barred, scheduling.known = seen(r.set.names), seen(r.scheduling.barred.names), nil
	return &p
}

// setRoots records which Placements apply to a space, and schedules the objects of those that have
// changed.
func (s *step) setRoots(space key.Space, now []*placement, changed map[*placement]bool) {
	old := policies[*placement](s.roots.bySpace[space])
	if slices.ContainsFunc(slices.Concat(old, now), func(p *placement) bool { return len(p.upsync) > 0 }) {
		s.recheckUpsyncs(space)
	}
	for _, p := range old {
		if i, found := policies[*placement](now).find(p.name); !found || !s.sameRoot(p, now[i]) || changed[p] {
			p.reach(space, s.reaches)
		}
	}
	for _, p := range now {
		if i, found := old.find(p.name); !found || !s.sameRoot(old[i], p) {
			p.reach(space, s.reaches)
		}
	}
	if len(now) > 0 {
		s.roots.bySpace[space] = now
	} else {
		delete(s.roots.bySpace, space)
	}
}

// sameRoot reports whether a Placement is unchanged for a space.
func (s *step) sameRoot(old, now *placement) bool {
	return old == now || old.spec == now.spec && old.follows == now.follows && old.scheduling.uid == now.scheduling.uid && old.set == now.set && old.scheduling.barred == now.scheduling.barred &&
		!slices.ContainsFunc(now.set.names, func(l key.Location) bool { return s.relocated[l] })
}
