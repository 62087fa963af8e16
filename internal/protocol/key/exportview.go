package key

import "strings"

// ExportView identifies an export view, which shows objects of many spaces to the provider of an API:
// all that an APIExport binds and claims, or one slice by an APIExportView. It is comparable. The
// export, view or value need not exist.
type ExportView struct {
	// Space is the provider's space, and Name the APIExport or, if View is set, the APIExportView.
	Space Space
	Name  string
	View  bool
	// Value is the value of the slice; empty for the rest.
	Value string
}

// Key returns the key of the APIExport or APIExportView.
func (f ExportView) Key() string {
	r := APIExports
	if f.View {
		r = APIExportViews
	}
	return Object{Space: f.Space, Identity: Identity{Resource: r, Name: f.Name}}.Key()
}

// String returns e/SPACE/NAME or v/SPACE/NAME/VALUE, which is unique for each export view.
func (f ExportView) String() string {
	if f.View {
		return "v/" + string(f.Space) + "/" + f.Name + "/" + f.Value
	}
	return "e/" + string(f.Space) + "/" + f.Name
}

// Compare orders export views by space, exports before views, by name and by value.
func (f ExportView) Compare(o ExportView) int {
	kind := func(f ExportView) string {
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
