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

// ExportViewRoot returns the root of an export view for the objects of a space, or key.AllSpaces.
func ExportViewRoot(f key.ExportView, s key.Space) Root {
	name := string(f.Space) + "/" + f.Name
	switch {
	case !f.View:
		return Root{Exports, name + "/spaces/" + string(s)}
	case f.Value == "":
		return Root{Slices, name + "/rest/spaces/" + string(s)}
	}
	return Root{Slices, name + "/values/" + f.Value + "/spaces/" + string(s)}
}

// ExportView returns the export view and the space of a root of Exports or Slices; ok is false if its
// path does not have that form.
func (r Root) ExportView() (f key.ExportView, s key.Space, ok bool) {
	segments := strings.Split(r.Name, "/")
	if slices.Contains(segments, "") {
		return key.ExportView{}, "", false
	}
	last := len(segments) - 1
	if last < reportedParts-1 || segments[last-1] != "spaces" {
		return key.ExportView{}, "", false
	}
	f = key.ExportView{Space: key.Space(segments[0]), Name: segments[1], View: r.API == Slices}
	switch {
	case r.API == Exports && len(segments) == reportedParts:
	case r.API == Slices && len(segments) == restParts && segments[2] == "rest":
	case r.API == Slices && len(segments) == sliceParts && segments[2] == "values":
		f.Value = segments[3]
	default:
		return key.ExportView{}, "", false
	}
	return f, key.Space(segments[last]), true
}
