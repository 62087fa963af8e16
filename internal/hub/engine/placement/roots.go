package placement

import (
	"encoding/binary"
	"iter"
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// roots has the Placements of root that reach into other spaces. What such a Placement
// selects differs between spaces only by what locations admit of them, so spaces that are
// alike in that share what follows of it.
type roots struct {
	all policies[*rooted]
	// of has, by space that exists, the Placements that reach it, as they are there, in the
	// order of names.
	of map[key.Space][]*placement
}

// rooted is a Placement of root that reaches into other spaces. Its own set is what it
// selects whatever locations admit.
type rooted struct {
	*placement
	// views has it for spaces, by what locations admit of them.
	views map[string]*placement
}

func newRoots() roots { return roots{of: map[key.Space][]*placement{}} }

// tenantsIn are the spaces of a state, root left out, with their rows.
func tenantsIn(state table.Reader) iter.Seq2[tenant, *table.Row] {
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	return func(yield func(tenant, *table.Row) bool) {
		state.Ascend(prefix, func(row *table.Row) bool {
			return yield(tenant{key.Space(row.Key[len(prefix):]), row.Meta.Labels}, row)
		})
	}
}

// view is a different text for each choice of the locations that admit anything of a space
// that exists.
func (gs *gates) view(s key.Space) string {
	var v []byte
	for i, g := range gs.groups {
		if !g.everySpace && g.admission.Admits(s) {
			v = binary.AppendUvarint(v, uint64(i))
		}
	}
	return string(v)
}

// views are those of all spaces, at the cost of what the locations admit.
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

// updateRoots updates the Placements of root that reach into other spaces, and which these
// are, and notes which objects must be evaluated again for that.
func (s *step) updateRoots(moved []key.Location) {
	anew := s.compileRoots()
	if len(s.roots.all) == 0 && len(anew) == 0 {
		return
	}
	if len(s.readmitted) > 0 { // a space may be like others than before
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

// compileRoots compiles those that have changed, and returns their names.
func (s *step) compileRoots() map[string]bool {
	anew := map[string]bool{}
	for _, c := range s.placed {
		if c.Space != key.Root {
			continue
		}
		i, found := s.roots.all.find(c.Name)
		if found && acts(c.Cur) {
			was := s.roots.all[i]
			if was.spec == specOf(c.Cur) && was.follows == followsOf(c.Cur) && was.seating.uid == c.Cur.Meta.UID {
				continue
			}
		}
		var now *rooted
		if p := compile(key.Placement{Space: key.Root, Name: c.Name}, c.Cur); p != nil && p.reaches != nil {
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

// reachRoots brings up to date which Placements reach which spaces. anew are those that are
// new or gone, and changed those of which another set is selected.
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
		for space := range s.roots.of {
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
	for space, all := range s.roots.of {
		for _, p := range all {
			if changed[p] {
				p.reach(space, s.reaches)
			}
		}
	}
}

// rootsOf are the Placements that reach a space, as they are there. Of those that are not to
// be looked at again it is known whether they do.
func (s *step) rootsOf(t tenant, view func(key.Space) string, again func(*rooted) bool) []*placement {
	if t.name == key.Root {
		return nil
	}
	known := policies[*placement](s.roots.of[t.name])
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

// viewed is a Placement of root as it is in a space, and in those that are like it.
func (s *step) viewed(r *rooted, t tenant) *placement {
	p, seating := *r.placement, *r.seating
	p.ref, p.tenant, p.admitted, p.seating = key.Placement{Space: key.Root, Name: r.name}.In(t.name), t, true, &seating
	seen := func(names []key.Location) *locationSet {
		all := slices.DeleteFunc(slices.Clone(names), func(l key.Location) bool { return !p.sees(s.locations[l], s.gates.admit(l), t) })
		return s.sets.of(all, nil)
	}
	p.set, seating.barred, seating.known = seen(r.set.names), seen(r.seating.barred.names), nil
	return &p
}

// setRoots notes which Placements reach a space, and has the objects evaluated again of
// those for which that is different.
func (s *step) setRoots(space key.Space, now []*placement, changed map[*placement]bool) {
	was := policies[*placement](s.roots.of[space])
	if slices.ContainsFunc(slices.Concat(was, now), func(p *placement) bool { return len(p.upsync) > 0 }) {
		s.asksMove(space)
	}
	for _, p := range was {
		if i, found := policies[*placement](now).find(p.name); !found || !s.sameRoot(p, now[i]) || changed[p] {
			p.reach(space, s.reaches)
		}
	}
	for _, p := range now {
		if i, found := was.find(p.name); !found || !s.sameRoot(was[i], p) {
			p.reach(space, s.reaches)
		}
	}
	if len(now) > 0 {
		s.roots.of[space] = now
	} else {
		delete(s.roots.of, space)
	}
}

// sameRoot says whether a Placement is the same in a space as before.
func (s *step) sameRoot(was, now *placement) bool {
	return was == now || was.spec == now.spec && was.follows == now.follows && was.seating.uid == now.seating.uid && was.set == now.set && was.seating.barred == now.seating.barred &&
		!slices.ContainsFunc(now.set.names, func(l key.Location) bool { return s.relocated[l] })
}
