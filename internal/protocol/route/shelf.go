package route

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// How many parts of a path the name of a root of Slices has, with a value and without.
const (
	sliceParts = 6
	restParts  = 5
)

// ShelfRoot is the root of what a shelf shows of the objects of a space, or key.AllSpaces.
func ShelfRoot(f key.Shelf, s key.Space) Root {
	name := string(f.Space) + "/" + f.Name
	switch {
	case !f.View:
		return Root{Exports, name + "/spaces/" + string(s)}
	case f.Value == "":
		return Root{Slices, name + "/rest/spaces/" + string(s)}
	}
	return Root{Slices, name + "/values/" + f.Value + "/spaces/" + string(s)}
}

// Shelf are the shelf and the space of a root of Exports or Slices; ok is false if its path
// does not have the form.
func (r Root) Shelf() (f key.Shelf, s key.Space, ok bool) {
	parts := strings.Split(r.Name, "/")
	if slices.Contains(parts, "") {
		return key.Shelf{}, "", false
	}
	last := len(parts) - 1
	if last < reportedParts-1 || parts[last-1] != "spaces" {
		return key.Shelf{}, "", false
	}
	f = key.Shelf{Space: key.Space(parts[0]), Name: parts[1], View: r.API == Slices}
	switch {
	case r.API == Exports && len(parts) == reportedParts:
	case r.API == Slices && len(parts) == restParts && parts[2] == "rest":
	case r.API == Slices && len(parts) == sliceParts && parts[2] == "values":
		f.Value = parts[3]
	default:
		return key.Shelf{}, "", false
	}
	return f, key.Space(parts[last]), true
}
