package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/route"
)

// TestProfilesTakeARight: only administrators, and users with a right from them, can read the profiles of the
// hub's process. No user can read its command line.
func TestProfilesTakeARight(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.grant("s", "joe", `{"subjects":[{"kind":"User","name":"joe"}],"roles":[{"name":"admin"}]}`)
	r.grant("root", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	r.grant("root", "pat", `{"subjects":[{"kind":"User","name":"pat"}],"rules":[{"nonResourceURLs":["/debug/pprof/*"],"verbs":["get"]}]}`)
	for _, name := range []string{"", "heap", "goroutine", "cmdline"} {
		for who, c := range map[string]client{"a member of nothing": r.as("eve"), "an admin of a space": r.as("joe"), "an admin of root": r.as("jane")} {
			if code, body := c.send("GET "+route.Profiles+name, ""); code != http.StatusForbidden {
				t.Errorf("%s reads %q: %d %.100s", who, name, code, body)
			}
		}
		if code, body := r.bearing("nobody").send("GET "+route.Profiles+name, ""); code != http.StatusUnauthorized {
			t.Errorf("an unknown user reads %q: %d %.100s", name, code, body)
		}
		want := http.StatusOK
		if name == "cmdline" {
			want = http.StatusNotFound
		}
		for _, c := range []client{r.as("op", masters), r.as("pat")} {
			code, body := c.send("GET "+route.Profiles+name, "")
			if code == http.StatusTooManyRequests { // another test takes one
				continue
			}
			if code != want || name == "heap" && !strings.HasPrefix(body, "\x1f\x8b") {
				t.Errorf("a user with the right reads %q: %d %.100q", name, code, body)
			}
		}
	}
	if code, _ := r.as("pat").send("POST "+route.Profiles+"heap", ""); code != http.StatusForbidden {
		t.Errorf("a user that may only get posts: %d", code)
	}
}
