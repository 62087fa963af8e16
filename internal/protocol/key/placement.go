package key

import (
	"cmp"
	"strings"
)

// Placement names a Placement, which may be gone.
type Placement struct {
	Space Space
	Name  string
}

// PlacementRef names a Placement among those that place objects of one space: NAME if it is
// of that space itself, root/NAME if it is one of root's, which reach spaces, and SPACE/NAME
// if it is one of a space that binds what the object defines.
type PlacementRef string

// In is how the Placement is named among those that place objects of a space.
func (p Placement) In(s Space) PlacementRef {
	if p.Space == s {
		return PlacementRef(p.Name)
	}
	return PlacementRef(string(p.Space) + "/" + p.Name)
}

// Of is the Placement that a name stands for among those that place objects of a space.
func (r PlacementRef) Of(s Space) Placement {
	if space, name, ok := strings.Cut(string(r), "/"); ok {
		return Placement{Space(space), name}
	}
	return Placement{s, string(r)}
}

// Binds says, of a Placement among those that place objects of a space, that it is one of
// another space, which is not root: it places the definition of what its space has bound.
func (r PlacementRef) Binds(s Space) bool {
	of := r.Of(s).Space
	return of != s && of != Root
}

// Object is the Placement as an object of its space.
func (p Placement) Object() Object {
	return Object{Space: p.Space, Identity: Identity{Resource: Placements, Name: p.Name}}
}

// Compare orders by space, then by name.
func (p Placement) Compare(o Placement) int {
	return cmp.Or(cmp.Compare(p.Space, o.Space), cmp.Compare(p.Name, o.Name))
}
