package exports

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Key is the label or field by which a view slices the objects of a resource.
type Key struct {
	// View is the export view of the rest.
	View  key.ExportView
	Split v1alpha1.Split
	// Field reports whether it is a field, not a label.
	Field bool
	// Values are the values that have a slice, in order; nil: each value has one.
	Values []string
	// Claim selects the claimed objects; nil for an exported resource, of which all objects are
	// sliced.
	Claim interface{ Selects(set labels.Labels) bool }
}

// ExportView returns the slice of objects with a value, or the rest if the value has no slice or is
// empty.
func (k Key) ExportView(value string) key.ExportView {
	f := k.View
	if k.HasSlice(value) {
		f.Value = value
	}
	return f
}

// HasSlice reports whether a value has a slice.
func (k Key) HasSlice(value string) bool {
	// A field may have megabytes, so the length is checked first.
	if value == "" || len(value) > utilvalidation.LabelValueMaxLength || len(utilvalidation.IsValidLabelValue(value)) > 0 {
		return false
	}
	if k.Values == nil {
		return true
	}
	_, found := slices.BinarySearch(k.Values, value)
	return found
}

// ValueOf returns the value that a decoded object has by itself, with a slice or not; "" if it has
// none, or no string.
func ValueOf(split v1alpha1.Split, object map[string]any) string {
	if split.Field == "" {
		value, _ := valueAt(object, []string{"metadata", "labels", split.Label}).(string)
		return value
	}
	value, _ := valueAt(object, strings.Split(split.Field[1:], ".")).(string)
	return value
}

func valueAt(value any, path []string) any {
	for _, name := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[name]
	}
	return value
}

// ValueIn is ValueOf for a stored object.
func ValueIn(split v1alpha1.Split, e *table.Entry) string {
	if split.Field == "" {
		return e.Meta.Labels.Get(split.Label)
	}
	return field(e, split.Field)
}

// field returns the string at a path of names behind dots; "" if there is none.
func field(e *table.Entry, path string) string {
	value := gjson.GetBytes(e.Value, path[1:]) // names contain no characters that are special in gjson paths
	if value.Type != gjson.String {
		return ""
	}
	return value.Str
}
