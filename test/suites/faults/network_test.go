package faults

import (
	"testing"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestNetwork puts the agent into a network of its own that drops packets silently, is
// unplugged, and changes its address. The cluster stays reachable, and the agent keeps it
// in the last known state.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := env.StartNetwork(t)
	w := world.ForHub(t, n.StartHub("--heartbeat", heartbeat.String(), "--disconnected-after", "3s"))
	e := edgeOf(t, w, nil)
	e.Agent.Kill()
	e.Agent.Within(n)
	e.Agent.Start("--kubeconfig", n.Kubeconfig(e.Cluster))
	for _, f := range []fault{
		{name: "lost", begin: n.Lose, end: n.Heal, deaf: true, lost: true},
		{name: "lost-up", begin: n.LoseUp, end: n.Heal, lost: true},
		{name: "lost-down", begin: n.LoseDown, end: n.Heal, deaf: true, lost: true},
		{name: "unplugged", begin: n.Unplug, end: n.Plug, deaf: true, lost: true},
		{name: "roaming", begin: n.Roam, end: func() {}, passes: true},
		{name: "roaming-back", begin: func() { n.Lose(); n.Roam() }, end: n.Heal, deaf: true},
	} {
		t.Run(f.name, func(t *testing.T) { e.through(t, f) })
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Unsent == 0 })
	e.connected("True")
	e.Invariants()
}
