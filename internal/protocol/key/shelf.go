package key

import "strings"

// Shelf is where objects of many spaces are shown together to the provider of an API: all
// that is bound and claimed by an APIExport, or one slice of that by an APIExportView. It is
// comparable, and says nothing of whether there is such an export, view or value.
type Shelf struct {
	// Space is the provider's, and Name that of the APIExport or, if View is set, of the
	// APIExportView.
	Space Space
	Name  string
	View  bool
	// Value is that of the slice; empty for the rest.
	Value string
}

// Key is the key of the APIExport or APIExportView.
func (f Shelf) Key() string {
	r := APIExports
	if f.View {
		r = APIExportViews
	}
	return Object{Space: f.Space, Identity: Identity{Resource: r, Name: f.Name}}.Key()
}

// String is e/SPACE/NAME or v/SPACE/NAME/VALUE; no two shelves have the same.
func (f Shelf) String() string {
	if f.View {
		return "v/" + string(f.Space) + "/" + f.Name + "/" + f.Value
	}
	return "e/" + string(f.Space) + "/" + f.Name
}

// Compare orders shelves: by their space, exports before views, by name and by value.
func (f Shelf) Compare(o Shelf) int {
	kind := func(f Shelf) string {
		if f.View {
			return "v"
		}
		return "e"
	}
	for _, pair := range [...][2]string{{string(f.Space), string(o.Space)}, {kind(f), kind(o)}, {f.Name, o.Name}, {f.Value, o.Value}} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}
