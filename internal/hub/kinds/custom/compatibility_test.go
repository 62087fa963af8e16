package custom

import (
	"errors"
	"fmt"
	"testing"

	"orrery.dev/orrery/internal/hub/kinds/schemacompat"
)

// TestCompatibility: objects are compared by their fields, definitions by their schemas. A definition
// that can't be read is an error, but not a MisfitError.
func TestCompatibility(t *testing.T) {
	spec := func(fieldType string) string {
		return fmt.Sprintf(`{"group": "shop.example", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": %q}}}}}]}`, fieldType)
	}
	widget := func(fieldType string) string {
		return fmt.Sprintf(`{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}, "size": %s}`, fieldType)
	}
	m := NewCompatibility()
	for _, c := range []struct {
		name, object, definition string
		isCRD                    bool
		want                     string
	}{
		{"fits", widget("1"), spec("integer"), false, ""},
		{"does not fit", widget(`"S"`), spec("integer"), false, "size"},
		{"fits another", widget(`"S"`), spec("string"), false, ""},
		{"agrees", `{"spec": ` + spec("integer") + `}`, spec("integer"), true, ""},
		{"contradicts", `{"spec": ` + spec("string") + `}`, spec("integer"), true, "versions[v1] size"},
		{"nothing to read", widget("1"), `[]`, false, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := "", m.Fit([]byte(c.object), c.isCRD, c.definition, c.definition)
			if misfit, ok := errors.AsType[*schemacompat.MisfitError](err); ok {
				got = misfit.Field
			} else if err != nil {
				got = "error"
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}
