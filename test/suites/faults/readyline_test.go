package faults

import (
	"errors"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestReadyLine shows that an agent is announced as ready when it has joined its location and its
// cluster answers, and that it names what it waits for until then.
func TestReadyLine(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String())
	e := edgeOf(t, w, nil)
	ready := func(a *env.Agent, awaits string, heal func()) {
		t.Helper()
		if want := "orrery-agent waits: " + awaits; !strings.HasPrefix(a.Ready, want) {
			t.Errorf("the first line is %q, want %q", a.Ready, want)
		}
		before := strings.Count(a.Stdout(), "orrery-agent ready: location edge")
		heal()
		e.Eventually("it is ready", func() error {
			if out := a.Stdout(); strings.Count(out, "orrery-agent ready: location edge") == before {
				return errors.New(out)
			}
			return nil
		})
	}
	e.Agent.Kill()
	e.Cluster.KillAPIServer()
	e.Agent.Start()
	ready(e.Agent, "the cluster does not answer: ", e.Cluster.StartAPIServer)
	e.Agent.Kill()

	token := strings.TrimSpace(env.Orrery(t, e.Root, "location", "token", "edge", "--token-only"))
	w.Hub.Kill()
	another := env.StartAgent(t, "another", token, e.Cluster.AgentKubeconfig)
	ready(another, "it has not joined the location yet: ", w.Hub.Start)
}
