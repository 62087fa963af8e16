package quantity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/test/support/cost"
)

// TestCheckReadsOnce: a value is read once, regardless of its nesting.
func TestCheckReadsOnce(t *testing.T) {
	const levels = 9000
	for name, level := range map[string][2]string{"lists": {"[", "]"}, "objects": {`{"a":`, "}"}} {
		t.Run(name, func(t *testing.T) {
			nested := func(inner string) []byte {
				return []byte(strings.Repeat(level[0], levels) + inner + strings.Repeat(level[1], levels))
			}
			value := nested(`["` + strings.Repeat("x", 1<<16) + `","1e9",{"1e9999":"1"}]`)
			cost.Within(t, 100, func() { json.Valid(value) }, func() {
				if err := quantity.Check(value); err != nil {
					t.Fatal(err)
				}
			})
			if quantity.Check(nested(`"1e9999"`)) == nil || quantity.Check(nested(`{"a":1e9999}`)) == nil {
				t.Error("a huge quantity below many levels is not found")
			}
		})
	}
}
