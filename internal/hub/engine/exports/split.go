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

// Key is what the objects of a resource are sliced by in a view.
type Key struct {
	// View is the shelf of the view's rest.
	View  key.Shelf
	Split v1alpha1.Split
	// Field says that it is by a field, not by a label.
	Field bool
	// Values are those that have a slice, in order; nil: each has one.
	Values []string
	// Claim says of claimed objects which they are; nil: all, those of an exported resource.
	Claim interface{ Selects(of labels.Labels) bool }
}

// Shelf is the slice of what has a value, or the rest, where that has none. It is the rest
// for "".
func (k Key) Shelf(value string) key.Shelf {
	f := k.View
	if k.Has(value) {
		f.Value = value
	}
	return f
}

// Has says whether a value has a slice.
func (k Key) Has(value string) bool {
	// What is too long is not looked at: a field may have megabytes.
	if value == "" || len(value) > utilvalidation.LabelValueMaxLength || len(utilvalidation.IsValidLabelValue(value)) > 0 {
		return false
	}
	if k.Values == nil {
		return true
	}
	_, found := slices.BinarySearch(k.Values, value)
	return found
}

// ValueOf is the value that a decoded object has by itself, whether or not it has a slice;
// "" if it has none, or no text.
func ValueOf(split v1alpha1.Split, object map[string]any) string {
	if split.Field == "" {
		value, _ := at(object, []string{"metadata", "labels", split.Label}).(string)
		return value
	}
	value, _ := at(object, strings.Split(split.Field[1:], ".")).(string)
	return value
}

func at(value any, path []string) any {
	for _, name := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[name]
	}
	return value
}

// ValueIn is the value that a stored object has by itself, as ValueOf says.
func ValueIn(split v1alpha1.Split, e *table.Entry) string {
	if split.Field == "" {
		return e.Meta.Labels.Get(split.Label)
	}
	return field(e, split.Field)
}

// field is the text at a path of names behind dots; "" if there is none.
func field(e *table.Entry, path string) string {
	value := gjson.GetBytes(e.Value, path[1:]) // a name has nothing that means anything else there
	if value.Type != gjson.String {
		return ""
	}
	return value.Str
}
