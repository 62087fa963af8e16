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
// of that space itself, root/NAME if it is one of root's, for no others reach a space.
type PlacementRef string

// ofRoot begins the names of root's Placements in other spaces.
const ofRoot = string(Root) + "/"

// In is how the Placement is named among those that place objects of a space.
func (p Placement) In(s Space) PlacementRef {
	if p.Space == s {
		return PlacementRef(p.Name)
	}
	return PlacementRef(ofRoot + p.Name)
}

// Of is the Placement that a name stands for among those that place objects of a space.
func (r PlacementRef) Of(s Space) Placement {
	if name, ok := strings.CutPrefix(string(r), ofRoot); ok {
		return Placement{Root, name}
	}
	return Placement{s, string(r)}
}

// Object is the Placement as an object of its space.
func (p Placement) Object() Object {
	return Object{Space: p.Space, Identity: Identity{Resource: Placements, Name: p.Name}}
}

// Compare orders by space, then by name.
func (p Placement) Compare(o Placement) int {
	return cmp.Or(cmp.Compare(p.Space, o.Space), cmp.Compare(p.Name, o.Name))
}
