package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Missing names the first field of an object that another lacks or has
// otherwise; empty: none. Lists are compared as long as want's are: the cluster
// may add items of its own.
func Missing(want, got map[string]any) string {
	want = maps.Clone(want)
	if m, ok := want["metadata"].(map[string]any); ok {
		m = maps.Clone(m)
		delete(m, "resourceVersion") // which belongs to the view itself
		want["metadata"] = m
	}
	return missing(want, got, "")
}

func missing(want, got any, path string) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return path + " is not an object"
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if d := missing(want[k], have[k], path+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) < len(want) {
			return path + " has fewer items"
		}
		for i := range want {
			if d := missing(want[i], have[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil || string(a) != string(b) {
		return fmt.Sprintf("%s is %s, want %s", path, b, a)
	}
	return ""
}
