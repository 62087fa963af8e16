package placement

import "orrery.dev/orrery/internal/protocol/key"

// noteEnded notes the Placements that were deleted, in order. One that is deleted with its
// space does not count: no user has deleted it by name.
func (s *step) noteEnded() {
	for _, c := range s.placed {
		_, there := s.placements[c.Space].find(c.Name)
		if c.Space == key.Root && !there {
			_, there = s.roots.all.find(c.Name)
		}
		_, going := s.going[c.Space]
		if there && !going && (c.Cur == nil || c.Cur.Meta.Deleting) {
			s.ended = append(s.ended, key.Placement{Space: c.Space, Name: c.Name})
		}
	}
}

// endedFor are the Placements that were deleted, of those that may have placed an object,
// as they are named in its space.
func (s *step) endedFor(o key.Object) []key.PlacementRef {
	if len(s.ended) == 0 {
		return nil
	}
	of := endedIn{o.Space, o.Resource == key.CRDs}
	refs, known := s.endedIn[of]
	if !known {
		for _, p := range s.ended {
			if p.Space == o.Space || p.Space == key.Root || of.bound {
				refs = append(refs, p.In(o.Space))
			}
		}
		s.endedIn[of] = refs
	}
	return refs
}

// goesWithNamespace says that an object's namespace is being deleted. It is emptied in an order, so
// what follows another object there may leave its locations before it is deleted itself.
func (s *step) goesWithNamespace(o key.Object) bool {
	if o.Namespace == "" {
		return false
	}
	of := key.Object{Space: o.Space, Identity: key.Identity{Resource: key.Namespaces, Name: o.Namespace}}
	goes, known := s.emptied[of]
	if !known {
		row := s.state.Get(of.Key())
		goes = row != nil && row.Meta.Deleting
		s.emptied[of] = goes
	}
	return goes
}

// endedIn is what the Placements that were deleted are asked of: the objects of a space, or
// the definitions, which other spaces may have bound.
type endedIn struct {
	space key.Space
	bound bool
}
