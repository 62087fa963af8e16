package fields

import (
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/cost"
)

// TestDeepObjectsAreComparedInBoundedTime: an object that the hub sends is compared at a cost that does not grow with its depth.
func TestDeepObjectsAreComparedInBoundedTime(t *testing.T) {
	const levels = 9000
	sent := `{"apiVersion":"v1","kind":"ConfigMap","spec":` + strings.Repeat(`{"b":`, levels) + `"` + strings.Repeat("x", 1<<16) + `"` + strings.Repeat("}", levels) + "}"
	for name, object := range map[string]string{"missing": `{"apiVersion":"v1","kind":"ConfigMap"}`, "other": strings.Replace(sent, "x", "y", 1)} {
		t.Run(name, func(t *testing.T) {
			answer := answerWith(t, object, `{"f:spec":{}}`)
			cost.Within(t, 1000, func() { json.Valid([]byte(sent)) }, func() {
				if _, err := Mutated(answer, sent, testIdentity); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
