package placement

import "orrery.dev/orrery/internal/protocol/key"

// noteEnded collects the deleted Placements, in order. A Placement that is deleted with its space
// does not count, since no user has deleted it by name.
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

// endedFor returns the deleted Placements that may have placed an object, as they are named in its
// space.
func (s *step) endedFor(o key.Object) []key.PlacementRef {
	if len(s.ended) == 0 {
		return nil
	}
	k := endedIn{o.Space, o.Resource == key.CRDs}
	refs, known := s.endedIn[k]
	if !known {
		for _, p := range s.ended {
			if p.Space == o.Space || p.Space == key.Root || k.bound {
				refs = append(refs, p.In(o.Space))
			}
		}
		s.endedIn[k] = refs
	}
	return refs
}

// goesWithNamespace reports whether an object's namespace is being deleted. The objects of a
// namespace are deleted in an order, so an object that follows another may leave its locations
// before it is deleted itself.
func (s *step) goesWithNamespace(o key.Object) bool {
	if o.Namespace == "" {
		return false
	}
	namespace := key.Object{Space: o.Space, Identity: key.Identity{Resource: key.Namespaces, Name: o.Namespace}}
	isDeleting, known := s.emptied[namespace]
	if !known {
		row := s.state.Get(namespace.Key())
		isDeleting = row != nil && row.Meta.Deleting
		s.emptied[namespace] = isDeleting
	}
	return isDeleting
}

// endedIn is the key of a cache of deleted Placements: for the objects of a space, or for its CRDs,
// which other spaces may have bound.
type endedIn struct {
	space key.Space
	bound bool
}
