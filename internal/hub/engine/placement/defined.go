package placement

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Definition is what another space's CRD says that a location has in place of one of an
// object's space: the object is to be right by it. Definitions that say the same are one. It
// is immutable.
type Definition struct {
	// Spec is the CRD's spec as JSON.
	Spec string
	// Hash is another for each Spec.
	Hash string
}

// foreign is a location that has another space's definition, which says otherwise.
type foreign struct {
	location key.Location
	*Definition
}

// definitions has what CRDs have met that are not what their locations have: for each of
// them, in order, the locations that have another space's, if that says otherwise. It is a
// function of the state.
type definitions map[key.Object][]foreign

// definedBy is the CRD by which an object is read in its space, or a CRD itself; ok is false
// for what no CRD defines.
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

// metBy are, of the locations of an object, those that have another space's definition.
func (e *Engine) metBy(o key.Object, m *Membership) []foreign {
	if len(e.definitions) == 0 {
		return nil
	}
	crd, ok := e.definedBy(o)
	if !ok {
		return nil
	}
	all := e.definitions[crd]
	if !slices.ContainsFunc(all, func(f foreign) bool { return !m.Has(f.location) }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(f foreign) bool { return !m.Has(f.location) })
}

// meetDefinitions notes which CRDs are not what their locations have, and whose objects are
// to be right by another from now on.
func (s *step) meetDefinitions() {
	var crds []key.Object
	for _, c := range s.objects {
		if c.Resource != key.CRDs {
			continue
		}
		if contest := s.claims[c.Identity].contest; contest != nil {
			for space := range contest.as { // what it says may be other than what they say
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

// foreignTo are the locations that have another space's definition in place of a CRD.
func (s *step) foreignTo(o key.Object) (all []foreign) {
	m := s.claims.as(o)
	if m == nil {
		return nil
	}
	for _, at := range s.ownersOf(o, m) {
		of, err := key.ParsePath(at.path)
		if err != nil {
			continue
		}
		if d := s.definition(of); d != nil && d != s.definition(o) {
			all = append(all, foreign{at.location, d})
		}
	}
	return all
}

// definition is what a CRD says; nil if there is none.
func (s *step) definition(o key.Object) *Definition {
	d, known := s.read[o]
	if !known {
		if row := s.state.Get(o.Key()); row != nil {
			spec := gjson.GetBytes(row.Value, "spec").Raw
			hash := sha256.Sum256([]byte(spec))
			d = s.definitionPool.get(string(hash[:]), func() *Definition { return &Definition{spec, string(hash[:])} })
		}
		s.read[o] = d
	}
	return d
}

// unsettleDefined has the objects settled again that a CRD defines, in its space and in those
// that have bound it.
func (s *step) unsettleDefined(crd key.Object) {
	r := defined(crd.Name)
	spaces := []key.Space{crd.Space}
	for space := range s.bound.of[crd.Space] {
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

// explainDefinition is the path of another space's CRD by which an object is to be right at a
// location, or that is there in its place; empty if there is none.
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
	if of, ok := row.In.(*Membership); ok && of != nil {
		return of.ownerAt(location)
	}
	return ""
}

// definedAt is the definition that a location has in place of the object's own; nil if none.
func (m *Membership) definedAt(location key.Location) *Definition {
	i, ok := slices.BinarySearchFunc(m.foreign, location, func(f foreign, l key.Location) int { return cmp.Compare(f.location, l) })
	if !ok {
		return nil
	}
	return m.foreign[i].Definition
}
