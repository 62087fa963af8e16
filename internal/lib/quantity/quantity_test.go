package quantity_test

import (
	"testing"

	"orrery.dev/orrery/internal/lib/quantity"
)

// TestHuge: quantities that would take hours and all memory are refused; those of clusters are
// accepted.
func TestHuge(t *testing.T) {
	for _, text := range []string{"1", "-2", "1.5Gi", "100m", "1E", "2e3", "1e+100", "12E-9", "1Ei"} {
		if _, err := quantity.Parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if err := quantity.Check([]byte(`{"a":["` + text + `"]}`)); err != nil {
			t.Errorf("%q in JSON: %v", text, err)
		}
	}
	for _, text := range []string{"1e2000000000", "1e-2000000000", "0.1E+99999", "1234567890123456789012e20000000", "1e99999999999999999999", " 1e2000000000 ", "1e--5000"} {
		if _, err := quantity.Parse(text); err == nil {
			t.Errorf("%q is a quantity", text)
		}
		for _, value := range []string{`{"a":{"b":["` + text + `"]}}`, `{"a":` + text + `}`} {
			if err := quantity.Check([]byte(value)); err == nil {
				t.Errorf("%s may be decoded", value)
			}
		}
	}
	for _, value := range []string{`"sha256:12e99999"`, `"12e99999 is no quantity"`, `"see-12E"`, `"e"`, `""`, `null`, `{}`, ``} {
		if err := quantity.Check([]byte(value)); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}
