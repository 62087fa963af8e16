package key

import (
	"cmp"
	"strings"
)

// Placement identifies a Placement, which may no longer exist.
type Placement struct {
	Space Space
	Name  string
}

// PlacementRef identifies a Placement among those that place objects of one space. It is NAME for a
// Placement of that space, root/NAME for one of root, and SPACE/NAME for one of a space that binds
// the API which the object defines.
type PlacementRef string

// In returns the name of the Placement among those that place objects of space s.
func (p Placement) In(s Space) PlacementRef {
	if p.Space == s {
		return PlacementRef(p.Name)
	}
	return PlacementRef(string(p.Space) + "/" + p.Name)
}

// Resolve returns the Placement with this name among those that place objects of space s.
func (r PlacementRef) Resolve(s Space) Placement {
	if space, name, ok := strings.Cut(string(r), "/"); ok {
		return Placement{Space(space), name}
	}
	return Placement{s, string(r)}
}

// Binds reports whether the Placement belongs to another space than s and root: it places the
// definition of an API that its space has bound.
func (r PlacementRef) Binds(s Space) bool {
	owner := r.Resolve(s).Space
	return owner != s && owner != Root
}

// Object returns the Placement as an object of its space.
func (p Placement) Object() Object {
	return Object{Space: p.Space, Identity: Identity{Resource: Placements, Name: p.Name}}
}

// Compare orders Placements by space, then by name.
func (p Placement) Compare(o Placement) int {
	return cmp.Or(cmp.Compare(p.Space, o.Space), cmp.Compare(p.Name, o.Name))
}
