package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestPaths connects the agent to its hub through the proxies that sites have: one that
// forwards connections, one that terminates HTTP/1.1, and one that clients have to ask
// for a connection, when there is no other way out.
func TestPaths(t *testing.T) {
	t.Parallel()
	n := env.StartNetwork(t)
	w := world.ForHub(t, n.StartHub("--heartbeat", heartbeat.String()))
	e := edgeOf(t, w, nil)
	hub := strings.TrimPrefix(e.Hub.URL, "https://")
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	passing, terminating := env.StartPassing(t, hub), env.StartTerminating(t, hub, certificate, key)
	forwarding := env.StartForwarding(t, n.ClusterSide)
	for _, path := range []struct {
		name, address string
		// variables are what the agent's environment says.
		variables []string
		// network is that in which the agent runs, without a way to the hub.
		network *env.Network
	}{
		{"passing", passing.Address, nil, nil},
		{"passing-http1", passing.Address, []string{"GODEBUG=http2client=0"}, nil},
		{"terminating-http1", strings.Replace(terminating.Address, "127.0.0.1", "localhost", 1), []string{"GODEBUG="}, nil},
		{"asked", hub, []string{"HTTPS_PROXY=http://" + forwarding.Address}, n},
	} {
		t.Run(path.name, func(t *testing.T) {
			e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
			join := trusting(t, e.Token("edge"), path.address, certificate)
			e.Agent.Kill()
			e.Agent.Setenv(path.variables...)
			args := []string{"--join", join}
			if path.network != nil {
				path.network.Lose()
				e.Agent.Within(path.network)
				args = append(args, "--kubeconfig", path.network.Kubeconfig(e.Cluster))
			}
			e.Agent.Start(args...)
			e.along(path.name)
		})
	}
	e.Invariants()
}

// along makes everything happen that travels between agent and hub: edits, reports,
// the repair of a difference after the hub was away, and both walks after the loss
// of the store.
func (e *edge) along(name string) {
	kept, edited, dropped := name+"-kept", name+"-edited", name+"-dropped"
	for _, n := range []string{kept, edited, dropped} {
		e.put(n, "1")
	}
	for n := range 30 {
		e.put(fmt.Sprint(name, "-", n), "1")
	}
	agreed := func(s agent.Status) bool { return s.Connected && s.Proven && s.Queued == 0 && s.Unsent == 0 }
	for _, n := range []string{kept, edited, dropped} {
		e.waitFor(n, "1")
	}
	start, uid := time.Now(), e.uid(edited)
	e.put(edited, "2")
	e.waitFor(edited, "2")
	e.drop(dropped)
	e.gone(dropped)
	e.waitForStatus(agreed)

	e.Hub.Restart()
	e.put(edited, "3")
	e.waitFor(edited, "3")
	e.waitForStatus(agreed)

	e.Agent.Kill()
	if err := os.Remove(filepath.Join(e.Agent.Dir, "agent.db")); err != nil {
		e.t.Fatal(err)
	}
	e.put(edited, "4")
	e.tamper(kept)
	e.Agent.Start()
	e.waitFor(edited, "4")
	e.waitFor(kept, "1")
	e.waitForStatus(agreed)
	if e.uid(edited) != uid {
		e.t.Error("the edited object was replaced")
	}
	e.deleted(start, 1)
	env.Eventually(e.t, soon, func() error {
		s, err := agent.ReadStatus(e.Agent.Dir)
		if err == nil && s.States["Applied"] != s.Desired {
			err = errors.New("not all is applied")
		}
		return err
	})
}
