package quantity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/test/support/cost"
)

// FuzzCheck checks that no value that passes Check costs much when its scalars are decoded as quantities,
// and that Check itself takes memory in proportion to the value.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a":["1e2000000000",{"b":"1Gi"}],"c":1e9}`))
	f.Add([]byte(`["1e99",1e-100," 12E5 ","1.5Gi","-2","1Ei"]`))
	f.Add([]byte(strings.Repeat(`{"a":[`, 5000) + `"1e9"` + strings.Repeat("]}", 5000)))
	f.Add([]byte(`["` + strings.Repeat("1", 1<<16) + `","0.` + strings.Repeat("0", 1<<16) + `1",{"\u0031e\u0039999":1}]`))
	f.Add([]byte(`["\u0031e2000000000"]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 1<<17 || !json.Valid(value) {
			return
		}
		var err error
		if used := cost.Allocated(func() { err = quantity.Check(value) }); used > 1<<20+uint64(100*len(value)) {
			t.Fatalf("a value of %d bytes takes %d bytes to check", len(value), used)
		}
		if err != nil {
			return
		}
		jsonscan.Scalars(value, func(scalar []byte) bool {
			var q resource.Quantity
			used := cost.Allocated(func() {
				if json.Unmarshal(scalar, &q) == nil {
					q.RoundUp(resource.Nano)
					_ = q.String()
				}
			})
			if used > 1<<20+uint64(100*len(scalar)) {
				t.Errorf("%.100s takes %d bytes as a quantity", scalar, used)
			}
			return true
		})
	})
}
