package demo

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// compare returns the difference between an object at a location and its source. Values that exist
// only at the location, such as defaults, are ignored.
func compare(source, object *unstructured.Unstructured) error {
	for field, want := range source.Object {
		switch field {
		case "metadata", "status":
			continue
		}
		if path := differs(field, want, object.Object[field]); path != "" {
			return fmt.Errorf("differs from its source at %s", path)
		}
	}
	for k, v := range source.GetLabels() {
		if object.GetLabels()[k] != v && !strings.HasPrefix(k, "orrery.dev/") {
			return fmt.Errorf("differs from its source at label %s", k)
		}
	}
	return nil
}

// differs returns the path of the first value in want that is missing or different in have;
// empty if there is none.
func differs(path string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return path
		}
		for k, v := range want {
			if difference := differs(path+"."+k, v, have[k]); difference != "" {
				return difference
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return path
		}
		for i := range want {
			if difference := differs(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); difference != "" {
				return difference
			}
		}
		return ""
	default:
		if equality.Semantic.DeepEqual(want, have) {
			return ""
		}
		return path
	}
}
