package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestOlderHub puts an older copy of its data under a hub with a live agent: new
// objects are made, changes and removals wait until the operator accepts that log.
func TestOlderHub(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, name := range []string{"a", "b", "c"} {
		e.put(name, "1")
	}
	for _, name := range []string{"a", "b", "c"} {
		e.waitFor(name, "1")
	}
	older := filepath.Join(t.TempDir(), "older")
	e.Hub.Stop()
	copyDir(t, e.Hub.Dir, older)
	e.Hub.Start()
	e.put("a", "2")
	e.put("d", "1")
	e.drop("c")
	e.waitFor("a", "2")
	e.waitFor("d", "1")
	e.gone("c")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Desired == 3 })
	a, b := e.uid("a"), e.uid("b")

	start := time.Now()
	e.Hub.Kill()
	if err := os.RemoveAll(e.Hub.Dir); err != nil {
		t.Fatal(err)
	}
	copyDir(t, older, e.Hub.Dir)
	e.Hub.Start()
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && !s.Proven && s.Deferred == 2 }) // a, d
	e.waitFor("c", "1")
	e.put("new", "1")
	e.waitFor("new", "1")
	e.put("a", "3")
	e.drop("b")
	waits := func() error {
		for name, value := range map[string]string{"a": "2", "b": "1", "d": "1", "new": "1"} {
			if err := e.checkTarget(name, value); err != nil {
				return err
			}
		}
		return nil
	}
	env.Throughout(t, observation, waits)
	e.steal("d")
	e.waitFor("d", "1")
	d := e.uid("d")
	e.Agent.Kill()
	e.Agent.Start()
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && !s.Proven && s.Deferred == 3 })
	env.Throughout(t, observation, waits)
	if n := e.deletions(start); n > 0 {
		t.Errorf("the agent deleted %d objects", n)
	}
	if e.uid("a") != a || e.uid("b") != b || e.uid("d") != d {
		t.Error("an object was replaced")
	}

	env.Orrery(t, e.Root, "location", "accept", "edge")
	e.waitFor("a", "3")
	e.gone("b")
	e.gone("d")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Deferred == 0 })
	if e.uid("a") != a {
		t.Error("the edited object was replaced")
	}
	e.Invariants()
}

// TestRevoked takes the credential of an agent away: its session ends at once, and
// no other is opened, also by a hub that has started anew. It keeps what it has,
// and goes on with another credential.
func TestRevoked(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.put("a", "1")
	e.waitFor("a", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected })
	env.Orrery(t, e.Root, "location", "revoke", "edge")
	token := e.Token("edge")
	env.Eventually(t, soon, func() error {
		if !strings.Contains(e.Agent.Stderr(), wire.ByeRevoked) {
			return errors.New("the agent was not told")
		}
		return nil
	})
	refused := func() {
		t.Helper()
		e.waitForStatus(func(s agent.Status) bool { return !s.Connected && strings.Contains(s.LastError, "401") })
	}
	refused()
	e.put("a", "2")
	e.tamper("a")
	e.waitFor("a", "1")
	e.staysAs("a", "1")
	e.Hub.Kill()
	e.Hub.Start()
	refused()
	e.drop("a")
	e.put("b", "1")
	e.steal("a")
	e.waitFor("a", "1")
	e.staysAs("a", "1")
	e.Agent.Kill()
	e.Agent.Start("--join", world.Through(t, token, e.Link))
	e.waitFor("b", "1")
	e.gone("a")
	e.Invariants()
}

// copyDir copies a directory with the modes of its files.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %q: %v\n%s", from, err, out)
	}
}
