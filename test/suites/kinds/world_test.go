package kinds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

const (
	spaceName = "shop"
	location  = "edge"
)

// world is a hub with a space, and a cluster that has joined it.
type world struct {
	t          *testing.T
	all        []sample
	hub        *env.Hub
	kubeconfig string // of the space
	space      api
	cluster    *env.Cluster
	target     api

	refused, changed sample
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, spaceName)
	token := strings.TrimSpace(env.Orrery(t, hub.Kubeconfig, "location", "add", location, "--token-only"))
	// All goes at once in the end, which is more than a location lets go unasked.
	env.Kubectl(t, hub.Kubeconfig, "patch", "location", location, "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	cluster := env.StartCluster(t, location)
	env.StartAgent(t, location, token, cluster.AgentKubeconfig)
	config := hub.PathConfig("spaces/" + spaceName)
	w := &world{
		t: t, hub: hub, kubeconfig: hub.PathKubeconfig("spaces/" + spaceName), space: newAPI(t, config),
		cluster: cluster, target: newAPI(t, cluster.Config), all: samples(t, config),
	}
	w.refused, w.changed = another(t, w.all, refused), another(t, w.all, changed)
	env.KubectlIn(t, cluster.Kubeconfig, env.MutatingPolicy("change"), "create", "-f", "-")
	try := with(w.changed.written(t), "default", "metadata", "namespace")
	w.eventually("the cluster changes what it is sent", func() error {
		got := w.target.must(t, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", asJSON, encode(t, try))
		if colour := valueAt(got, "data", "colour"); colour != "red" {
			return fmt.Errorf("colour is %v", colour)
		}
		return nil
	})
	return w
}

func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	start := time.Now()
	env.Eventually(w.t, soon, f)
	w.t.Logf("%s: after %s", what, time.Since(start).Round(time.Millisecond))
}

// place is what orrery status says of an object at its one location.
type place struct {
	State, Reason, Message string
}

func (p place) is(state string) error {
	if p.State != state {
		return fmt.Errorf("it is %+v, want %s", p, state)
	}
	return nil
}

// status is by GROUP/RESOURCE/[NAMESPACE/]NAME.
func (w *world) status() map[string]place {
	w.t.Helper()
	var s struct {
		Objects []struct {
			Object string  `json:"object"`
			Places []place `json:"places"`
		} `json:"objects"`
	}
	out := env.Orrery(w.t, w.hub.Kubeconfig, "status", "--space", spaceName, "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		w.t.Fatal(err)
	}
	places := map[string]place{}
	for _, o := range s.Objects {
		if len(o.Places) == 1 {
			places[o.Object] = o.Places[0]
		}
	}
	return places
}

// revision is that of the hub's log.
func (w *world) revision() any {
	w.t.Helper()
	return valueAt(w.space.get(w.t, "/api/v1/configmaps?limit=1"), "metadata", "resourceVersion")
}
