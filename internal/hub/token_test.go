package hub_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/protocol"
)

// A new token is valid at once, even if the table does not contain it yet.
func TestTokenIsGoodAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	const location = key.Location("paris")
	r.addLocation(location, nil)
	connected, err := protocol.TokenClient(r.join(location).Join)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connected.Close)
	for range 10 { // more would be bounded
		next := r.join(location)
		bearer, err := next.Identity.BearerClient()
		if err != nil {
			t.Fatal(err)
		}
		bearer.HTTP = connected.HTTP // so that no handshake gives the table time
		next.Client = bearer
		if code := next.raw(string(location) + "/reports"); code != http.StatusOK {
			t.Fatalf("a new token: %d", code)
		}
	}
}

// TestDryRunOfAToken shows that a dry run neither makes a token nor takes one back.
func TestDryRunOfAToken(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addLocation("a", nil)
	a := r.join("a")
	for dryRun, want := range map[string]int{"All": http.StatusOK, "Some": http.StatusUnprocessableEntity} {
		before := r.row(key.Enrolment("a"))
		resp, err := r.operator().Post(r.URL+"/spaces/root/apis/orrery.dev/v1alpha1/locations/a/token?dryRun="+dryRun, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ Status any }
		err = json.NewDecoder(resp.Body).Decode(&made)
		_ = resp.Body.Close()
		status, _ := made.Status.(map[string]any) // of another answer it is a string
		if resp.StatusCode != want || err != nil || status["token"] != nil && status["token"] != "" {
			t.Errorf("dryRun=%s is answered with %s, %+v, %v", dryRun, resp.Status, made, err)
		}
		if now := r.row(key.Enrolment("a")); now.ModRev != before.ModRev {
			t.Errorf("dryRun=%s took the enrolment from revision %d to %d", dryRun, before.ModRev, now.ModRev)
		}
	}
	if got := a.status(); got != http.StatusOK {
		t.Errorf("after dry runs the token is answered with %d", got)
	}
}
