package hub_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/test/support/etcdtest"
)

// TestRevokedAtAnotherHub: what one hub revokes is refused by another on the same log at
// once, and what is open there ends.
func TestRevokedAtAnotherHub(t *testing.T) {
	t.Parallel()
	servers := []string{etcdtest.Listen(t, nil)}
	one := start(t, t.TempDir(), func(c *hub.Config) { c.EtcdServers = servers })
	// Hubs at different URLs both say in a Space where it is: what is made in it then may have to be tried again.
	one.addSpace("a")
	one.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}`)
	one.grant("a", "joe", `{"subjects":[{"kind":"User","name":"joe"}],"roles":[{"name":"view"}]}`)
	made := one.token(`{"user":"jane"}`)
	shared := t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key", "encryption.yaml"} {
		data, err := os.ReadFile(filepath.Join(one.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shared, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := start(t, shared, func(c *hub.Config) { c.EtcdServers = servers })
	watch := func(c client) *http.Response {
		w := c.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
		t.Cleanup(func() { _ = w.Body.Close() })
		if w.StatusCode != http.StatusOK {
			t.Fatal(w.Status)
		}
		return w
	}
	jane, joe := other.bearing(made.Status.Token), other.as("joe")
	jane.Timeout, joe.Timeout = 0, 0         // each wait has its own
	ofJane, ofJoe := watch(jane), watch(joe) //nolint:bodyclose // by watch
	one.revokeToken(made.Name)
	if code, body := jane.send(podsOfA, ""); code != http.StatusUnauthorized {
		t.Errorf("a token that the other hub revoked: %d %s", code, body)
	}
	ends(t, ofJane)
	one.revoke("a", "joe")
	if code, body := joe.send(podsOfA, ""); code != http.StatusForbidden && code != http.StatusUnauthorized {
		t.Errorf("a Grant that the other hub revoked: %d %s", code, body)
	}
	ends(t, ofJoe)
	one.grant("a", "joe", `{"subjects":[{"kind":"User","name":"joe"}],"roles":[{"name":"view"}]}`)
	if code, body := joe.send(podsOfA, ""); code != http.StatusOK {
		t.Errorf("granted at the other hub: %d %s", code, body)
	}
}
