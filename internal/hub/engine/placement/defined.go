package placement

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Definition is the spec of another space's CRD that a location has instead of the CRD that defines
// an object in its own space. The object must be valid by it. Definitions are immutable, and those
// with equal specs are one.
type Definition struct {
	// Spec is the CRD's spec as JSON.
	Spec string
	// Hash identifies the Spec.
	Hash string
}

// foreign is a location that has a different definition from another space.
type foreign struct {
	location key.Location
	*Definition
}

// definitions holds, for each CRD, the locations that have a different definition from another
// space, in order. It is a function of the state.
type definitions map[key.Object][]foreign

// definedBy returns the CRD that defines an object in its space, or the object itself if it is a
// CRD. ok is false if no CRD defines it.
func (e *Engine) definedBy(o key.Object) (crd key.Object, ok bool) {
	switch {
	case o.Resource == key.CRDs:
		return o, true
	case o.Resource.Builtin():
		return o, false
	}
	home, ok := e.bound.home(o.Space, o.Resource)
	return key.Object{Space: home, Identity: definitionOf(o.Resource)}, ok
}

// foreignDefinitions returns the locations of an object that have another space's definition.
func (e *Engine) foreignDefinitions(o key.Object, m *Membership) []foreign {
	if len(e.definitions) == 0 {
		return nil
	}
	crd, ok := e.definedBy(o)
	if !ok {
		return nil
	}
	all := e.definitions[crd]
	if !slices.ContainsFunc(all, func(f foreign) bool { return !m.Contains(f.location) }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(f foreign) bool { return !m.Contains(f.location) })
}

// updateDefinitions recomputes the CRDs for which locations have another definition. It schedules
// their objects for assignment.
func (s *step) updateDefinitions() {
	var crds []key.Object
	for _, c := range s.objects {
		if c.Resource != key.CRDs {
			continue
		}
		if conflict := s.claims[c.Identity].conflict; conflict != nil {
			for space := range conflict.as { // its spec may now differ from theirs
				crds = append(crds, key.Object{Space: space, Identity: c.Identity})
			}
		}
	}
	for o := range s.unsettled {
		if o.Resource == key.CRDs {
			crds = append(crds, o)
		}
	}
	for _, o := range crds {
		s.unsettled[o] = struct{}{}
		now := s.foreignTo(o)
		if slices.Equal(now, s.definitions[o]) {
			continue
		}
		if s.definitions[o] = now; len(now) == 0 {
			delete(s.definitions, o)
		}
		s.unsettleDefined(o)
	}
}

// foreignTo returns the locations that have another space's definition instead of a CRD.
func (s *step) foreignTo(o key.Object) (all []foreign) {
	m := s.claims.as(o)
	if m == nil {
		return nil
	}
	for _, owner := range s.ownersOf(o, m) {
		other, err := key.ParsePath(owner.path)
		if err != nil {
			continue
		}
		if d := s.definition(other); d != nil && d != s.definition(o) {
			all = append(all, foreign{owner.location, d})
		}
	}
	return all
}

// definition returns the spec of a CRD; nil if there is no such object.
func (s *step) definition(o key.Object) *Definition {
	d, known := s.read[o]
	if !known {
		if row := s.state.Get(o.Key()); row != nil {
			current := s.preparedDefinitions.Take(row, func() *Definition { return readDefinition(row) })
			d = s.definitionPool.get(current.Hash, func() *Definition { return current })
		}
		s.read[o] = d
	}
	return d
}

// readDefinition reads the spec of a CRD.
func readDefinition(row *table.Row) *Definition {
	spec := gjson.GetBytes(row.Value, "spec").Raw
	hash := sha256.Sum256([]byte(spec))
	return &Definition{spec, string(hash[:])}
}

// unsettleDefined schedules the assignment of the objects that a CRD defines, in its space and in
// the spaces that have bound it.
func (s *step) unsettleDefined(crd key.Object) {
	r := defined(crd.Name)
	spaces := []key.Space{crd.Space}
	for space := range s.bound.consumers[crd.Space] {
		if home, ok := s.bound.home(space, r); ok && home == crd.Space {
			spaces = append(spaces, space)
		}
	}
	for _, space := range spaces {
		s.state.Ascend(key.ResourcePrefix(space, r), func(row *table.Row) bool {
			if o, err := key.ParseObject(row.Key); err == nil {
				s.unsettled[o] = struct{}{}
			}
			return true
		})
	}
}

// explainDefinition returns the path of another space's CRD that a location has instead of the one
// that defines the object; empty if there is none.
func (m *Membership) explainDefinition(state table.Reader, o key.Object, location key.Location) string {
	if m.definedAt(location) == nil {
		return ""
	}
	crd := o
	if o.Resource != key.CRDs {
		crd, _, _ = referredTo(state, o.Space, definitionOf(o.Resource))
	}
	row := state.Get(crd.Key())
	if row == nil {
		return ""
	}
	if crdMembership, ok := row.In.(*Membership); ok && crdMembership != nil {
		return crdMembership.ownerAt(location)
	}
	return ""
}

// definedAt returns the definition that a location has instead of the object's own; nil if there is
// none.
func (m *Membership) definedAt(location key.Location) *Definition {
	i, ok := slices.BinarySearchFunc(m.foreign, location, func(f foreign, l key.Location) int { return cmp.Compare(f.location, l) })
	if !ok {
		return nil
	}
	return m.foreign[i].Definition
}
