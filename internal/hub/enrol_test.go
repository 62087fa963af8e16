package hub_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// refusal returns the reason why a request is not authenticated as an agent; empty if it is.
func refusal(t *testing.T, err error) wire.Refusal {
	t.Helper()
	var refused *protocol.RefusedError
	var status metav1.Status
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &refused) || refused.Code != http.StatusUnauthorized:
		t.Fatal(err)
	case json.Unmarshal(refused.Body, &status) != nil || status.Details == nil || len(status.Details.Causes) == 0:
		t.Fatalf("%s", refused.Body)
	}
	return wire.Refusal(status.Details.Causes[0].Type)
}

// opens is how a client's session is refused; empty: it is not.
func opens(t *testing.T, c *protocol.Client, err error) wire.Refusal {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s, err := c.Open(t.Context(), 0, "")
	if err == nil {
		s.Close()
	}
	return refusal(t, err)
}

// TestCredentialsAndTheHubsClock: whatever the hub's clock says, an agent gets in, if it
// may renew what has expired.
func TestCredentialsAndTheHubsClock(t *testing.T) {
	t.Parallel() // it waits much of the time
	const life, late = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		late, ahead   time.Duration
		opens, renews wire.Refusal
	}{
		{late, 0, "", ""},
		{late, life - time.Minute, "", ""},
		{late, life + time.Minute, wire.RefusedExpired, ""},
		{late, life + late - time.Minute, wire.RefusedExpired, ""},
		{late, life + late + time.Minute, wire.RefusedExpired, wire.RefusedTooLate},
		{late, -200 * 24 * time.Hour, "", ""},
		{0, life + time.Minute, wire.RefusedExpired, wire.RefusedTooLate},
		{0, life - time.Minute, "", ""},
	} {
		var ahead atomic.Int64
		begun := time.Now() // the clock only moves with ahead: a slow test must not use up the minute before an end
		r := start(t, t.TempDir(), func(config *hub.Config) {
			config.CredentialLife, config.CredentialLate = life, c.late
			config.Now = func() time.Time { return begun.Add(time.Duration(ahead.Load())) }
		})
		r.addLocation("a", nil)
		id := r.join("a").Identity
		ahead.Store(int64(c.ahead))
		client, err := id.Client()
		if got := opens(t, client, err); got != c.opens {
			t.Errorf("%+v: a session is refused with %q", c, got)
		}
		next, err := id.Renew(t.Context())
		if got := refusal(t, err); got != c.renews {
			t.Errorf("%+v: a renewal is refused with %q", c, got)
		}
		if err == nil {
			client, err := next.Client()
			if got := opens(t, client, err); got != "" {
				t.Errorf("%+v: what was renewed is refused with %q", c, got)
			}
			ahead.Store(0) // the clock is corrected
			if got := opens(t, client, nil); got != "" {
				t.Errorf("%+v: what was renewed by a wrong clock is refused by the right one with %q", c, got)
			}
		}
		r.stop()
	}
}

// TestAgentOfTheVersionBefore: the token of an agent of the previous version remains valid until the
// upgraded agent has exchanged it, without help by a user. Then the token is invalid.
func TestAgentOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("pretend")
	r.addLocation("a", nil)
	uid := r.location("a").UID
	record := fmt.Sprintf(`{"location":%q,"hash":"%x","created":"2026-01-01T00:00:00Z"}`, uid, sha256.Sum256([]byte("lasting")))
	rev, ok, err := r.Log.Put(t.Context(), key.Enrolment("a"), []byte(record), 0)
	if err != nil || !ok {
		t.Fatal(err)
	}
	if err := r.Table.WaitFor(limit.Context(t, "the table shows a revision"), rev); err != nil {
		t.Fatal(err)
	}
	join := r.enrol("a") // replaces nothing
	join.Token = "a.lasting"
	old, err := protocol.TokenClient(join)
	if got := opens(t, old, err); got != "" {
		t.Fatalf("the token is refused with %q", got)
	}
	var w inprocess.World
	config := agent.Config{
		Join: join, Target: r.config("spaces/pretend"), DataDir: filepath.Join(t.TempDir(), "data"), Version: "new",
	}
	for range 2 {
		agent, err := w.StartAgent(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		r.eventually(func() string {
			if open, _ := r.Sessions.Connected(key.WholeOf("a")); !open {
				return "the agent has no session"
			}
			return ""
		})
		if got := opens(t, old, nil); got != wire.RefusedJoin {
			t.Errorf("the token is answered with %q after it was traded", got)
		}
		if err := agent.Stop(); err != nil {
			t.Error(err)
		}
		r.eventually(func() string { // else the next agent would seem to have this session
			if open, _ := r.Sessions.Connected(key.WholeOf("a")); open {
				return "the agent that was stopped still has a session"
			}
			return ""
		})
	}
}
