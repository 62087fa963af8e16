package process

import (
	"runtime/debug"
	"testing"
)

// TestVersion: the stamped version comes first, then Go's build info; otherwise the version is
// unknown.
func TestVersion(t *testing.T) {
	for _, c := range []struct{ stamped, main, want string }{
		{"v1.2.3", "v1.0.0", "v1.2.3"},
		{"v1.2.3", "", "v1.2.3"},
		{"", "v0.0.0-20261123163447-9ff76ba5b0c1+dirty", "v0.0.0-20261123163447-9ff76ba5b0c1+dirty"},
		{"", "(devel)", "devel"},
		{"", "", "devel"},
	} {
		if got := versionOf(c.stamped, &debug.BuildInfo{Main: debug.Module{Version: c.main}}); got != c.want {
			t.Errorf("stamped %q, of Go %q: %q, want %q", c.stamped, c.main, got, c.want)
		}
	}
}
