package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// parseProperties parses properties of the form NAME=VALUE; nil if there are none. A value that is
// not JSON is a string.
func parseProperties(all []string) (map[string]apiextensionsv1.JSON, error) {
	var properties map[string]apiextensionsv1.JSON
	for _, p := range all {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("property %q: want NAME=VALUE", p)
		}
		raw := []byte(v)
		if !json.Valid(raw) {
			var err error
			if raw, err = json.Marshal(v); err != nil {
				return nil, fmt.Errorf("property %q: %w", p, err)
			}
		}
		if properties == nil {
			properties = map[string]apiextensionsv1.JSON{}
		}
		properties[k] = apiextensionsv1.JSON{Raw: raw}
	}
	return properties, nil
}

func formatProperties(properties map[string]apiextensionsv1.JSON) string {
	if len(properties) == 0 {
		return "none"
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		all = append(all, k+"="+string(properties[k].Raw))
	}
	return strings.Join(all, ",")
}

// formatTaints formats taints as kubectl does.
func formatTaints(taints []v1alpha1.Taint) string {
	if len(taints) == 0 {
		return "none"
	}
	all := make([]string, len(taints))
	for i, t := range taints {
		all[i] = t.String()
	}
	return strings.Join(all, ",")
}
