package route

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// The number of path segments in the name of a root of Slices, with a value and without.
const (
	sliceParts = 6
	restParts  = 5
)

// ShelfRoot returns the root of an export view for the objects of a space, or key.AllSpaces.
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

// Shelf returns the export view and the space of a root of Exports or Slices; ok is false if its
// path does not have that form.
func (r Root) Shelf() (f key.Shelf, s key.Space, ok bool) {
	segments := strings.Split(r.Name, "/")
	if slices.Contains(segments, "") {
		return key.Shelf{}, "", false
	}
	last := len(segments) - 1
	if last < reportedParts-1 || segments[last-1] != "spaces" {
		return key.Shelf{}, "", false
	}
	f = key.Shelf{Space: key.Space(segments[0]), Name: segments[1], View: r.API == Slices}
	switch {
	case r.API == Exports && len(segments) == reportedParts:
	case r.API == Slices && len(segments) == restParts && segments[2] == "rest":
	case r.API == Slices && len(segments) == sliceParts && segments[2] == "values":
		f.Value = segments[3]
	default:
		return key.Shelf{}, "", false
	}
	return f, key.Space(segments[last]), true
}
