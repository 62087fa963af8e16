package demo

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// compare returns where an object at a location differs from its source. Values that only
// the location has, such as defaults, do not count.
func compare(source, object *unstructured.Unstructured) error {
	for field, want := range source.Object {
		switch field {
		case "metadata", "status":
			continue
		}
		if at := differs(field, want, object.Object[field]); at != "" {
			return fmt.Errorf("differs from its source at %s", at)
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
			if at := differs(path+"."+k, v, have[k]); at != "" {
				return at
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return path
		}
		for i := range want {
			if at := differs(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); at != "" {
				return at
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
