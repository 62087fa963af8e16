package faults

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// old has the hub and the agent of the minor version before this one, by make previous.
const old = "previous"

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// upgrade stops a hub, and starts it again as another one. Hubs of before, in whose place one of today
// comes, answer a watch when they stop, and end it at once.
func upgrade(hub *env.Hub, binary string, followers []*follower) {
	for _, f := range followers {
		f.waitForWatch(binary == "orrery")
	}
	hub.Stop()
	hub.Use(binary)
	hub.Start()
}

// revision is that of the log, as a hub has it.
func (h *hubs) revision(hub *env.Hub) (string, error) {
	list, err := world.Dynamic(h.t, hub.PathConfig("spaces/"+spaceName)).Resource(world.ConfigMaps).List(h.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// quiet waits until nothing has been written to the log for two heartbeats: two hubs that keep
// overwriting each other never come to that.
func (h *hubs) quiet() {
	h.t.Helper()
	last, since := "", time.Now()
	env.Eventually(h.t, soon, func() error {
		now, err := h.revision(h.all[0])
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < 2*patient.heartbeat+observation {
			return fmt.Errorf("the log is at revision %s", now)
		}
		return nil
	})
}

// TestSkew: hubs and agents of the version before go on with those of today, on one log: hubs
// are replaced one by one, back and again, and then agents, or agents first. No write is lost
// or made twice, nothing is removed or written again at the target, and hubs of both versions
// do not write by turns; clients that watch through the balancer go on where they were.
func TestSkew(t *testing.T) {
	t.Parallel()
	h := newHubs(t, 2, patient, func(hub *env.Hub) { hub.Use(old + "/orrery") })
	h.Agent.Kill()
	h.Agent = env.NewAgent(t, "old")
	h.Agent.Use(old + "/orrery-agent")
	h.Agent.Start("--join", h.Token("edge"), "--kubeconfig", h.Cluster.AgentKubeconfig)
	h.follows("all is old")
	followers := []*follower{h.informer(world.ConfigMaps), h.informer(secrets)} // of the latter there are none

	h.write()
	upgrade(h.all[0], "orrery", followers)
	h.follows("one hub is new")
	h.end()
	h.quiet()
	h.write()
	upgrade(h.all[1], "orrery", followers)
	h.follows("the agent is old")
	upgrade(h.all[0], old+"/orrery", followers)
	h.follows("one hub is old again")
	upgrade(h.all[1], old+"/orrery", followers)
	h.follows("all is old again")
	h.Agent.Stop()
	h.Agent.Use("orrery-agent")
	h.Agent.Start()
	h.follows("the agent is new")
	h.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
	for _, hub := range h.all {
		upgrade(hub, "orrery", followers)
		h.follows("and a hub")
	}
	h.verify()
	h.quiet()
	for _, f := range followers {
		f.verify(2 * 3)
	}
}
