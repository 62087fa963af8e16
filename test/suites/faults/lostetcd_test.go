package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/ports"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// noticedWithin is the bound of docs/operations/locations.md for an API server that has lost its etcd.
const noticedWithin = 5 * time.Minute

// TestLostEtcd takes away the etcd of a location's API server, which goes on to answer discovery and to hold watches
// open. Each place that shows state calls that stale within the bound, and the agent is not ready: also if nothing is
// edited meanwhile, so that no request of the agent fails. All recovers with etcd.
func TestLostEtcd(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String())
	e := edgeOf(t, w, env.StartLink(t, w.Hub.URL))
	metrics := ports.Reserve(t)
	e.Agent.Kill()
	e.Agent.Start("--metrics", metrics)
	u := &unseen{edge: e, kubeconfig: w.Hub.PathKubeconfig("spaces/" + spaceName), reports: w.Hub.PathKubeconfig("views/reports/spaces/" + spaceName + "/locations/edge")}
	u.place()
	ready := func(when string, want int) {
		t.Helper()
		u.Eventually(when+": the readiness of the agent", func() error {
			code, body, err := httpGet(t, "http://"+metrics+"/readyz")
			if err == nil && code != want {
				err = fmt.Errorf("it answers %d %s, want %d", code, strings.TrimSpace(body), want)
			}
			return err
		})
	}
	u.shows("before", true)
	ready("before", http.StatusOK)
	type fault struct {
		name        string
		begin, heal func()
		// edits is set if an object is edited right after.
		edits bool
	}
	all := []fault{
		{"etcd paused", func() { u.Cluster.Etcd.Signal(syscall.SIGSTOP) }, func() { u.Cluster.Etcd.Signal(syscall.SIGCONT) }, false},
		{"etcd killed", u.Cluster.KillEtcd, u.Cluster.StartEtcd, true},
	}
	// Without an edit the agent takes four minutes to notice. Only make soak waits for that.
	for _, fault := range all[max(0, len(all)-seeds.Count(t, 1)):] {
		began := time.Now()
		fault.begin()
		if fault.edits {
			e.put("meanwhile", fault.name)
		}
		env.Eventually(t, noticedWithin, func() error {
			if done, output := u.synced("root", "location", "edge"); done {
				return errors.New(output)
			}
			return nil
		})
		t.Logf("%s: noticed after %s", fault.name, time.Since(began).Round(time.Second))
		u.shows(fault.name, false)
		ready(fault.name, http.StatusServiceUnavailable)
		e.put("meanwhile", fault.name)
		fault.heal()
		u.shows("after "+fault.name, true)
		ready("after "+fault.name, http.StatusOK)
		e.waitFor("meanwhile", fault.name)
	}
	e.Invariants()
}
