package hub

import "testing"

// TestMemoryIsGivenBack has a hub that was busy give back what it does not use once it is
// calm, and not before. What that gains is measured by the bench: other tests fill the heap
// of this process meanwhile.
func TestMemoryIsGivenBack(t *testing.T) {
	const mib = 1 << 20
	start := heap{allocated: 900 * mib, live: 100 * mib, kept: 190 * mib}
	for name, c := range map[string]struct {
		now  heap
		want bool
	}{
		"calm, with much to spare": {heap{allocated: 903 * mib, live: 100 * mib, kept: 190 * mib}, true},
		"busy":                     {heap{allocated: 950 * mib, live: 100 * mib, kept: 190 * mib}, false},
		"calm, with little":        {heap{allocated: 903 * mib, live: 100 * mib, kept: 108 * mib}, false},
	} {
		if got := c.now.spareAfter(start); got != c.want {
			t.Errorf("%s: to be given back: %t, want %t", name, got, c.want)
		}
	}
}
