package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/env"
)

// refused is kept by a space, which is inert, and taken by no API server: a port
// by name has no end.
const refused = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: refused, namespace: shop}
spec: {podSelector: {}, ingress: [{ports: [{port: http, endPort: 32768}]}]}
`

const refusedObject = "networking.k8s.io/networkpolicies/shop/refused"

// contested are resources whose samples a real cluster does not leave alone, and
// why that is right.
var contested = map[string]string{
	"ipaddresses": "the API server removes an address that no Service has, a minute after it was made",
}

// TestEveryKindAtACluster places all samples at a real cluster, whose controllers
// run, leaves them there for a while, and takes them back.
func TestEveryKindAtACluster(t *testing.T) {
	w := newWorld(t)
	env.KubectlIn(t, w.kubeconfig, refused, "create", "-f", "-")
	env.Kubectl(t, w.kubeconfig, "apply", "--server-side", "-f", samplesDir)
	w.space.must(t, http.MethodPost, placements, asJSON, placeAll(t, append(slices.Clip(w.all), w.refused()), location))

	w.eventually("everything is there but what is refused", func() error { return w.settled() })
	w.same()
	w.space.must(t, http.MethodPatch, w.refused().path(), jsonPatch, []byte(`[{"op":"remove","path":"/spec/ingress/0/ports/0/endPort"}]`))
	w.eventually("what was refused is put right", func() error {
		return w.status()[refusedObject].is("Applied")
	})
	w.quiet()
	w.same()

	w.space.must(t, http.MethodDelete, placements+"/all", asJSON, nil)
	w.eventually("nothing is left", w.gone)
}

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
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := env.StartHub(t)
	env.Orrery(t, hub.Kubeconfig, "space", "create", spaceName)
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
	env.Kubectl(t, w.kubeconfig, "create", "namespace", shop)
	return w
}

// refused is the object that the cluster refuses.
func (w *world) refused() sample {
	w.t.Helper()
	i := slices.IndexFunc(w.all, func(s sample) bool { return s.gvk.Kind == "NetworkPolicy" })
	s := w.all[i]
	s.name = "refused"
	return s
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

// settled says that all samples are applied, and that the cluster's refusal of the
// one object that it refuses is shown on that object.
func (w *world) settled() error {
	status := w.status()
	var all []error
	for _, s := range w.all {
		object := strings.TrimPrefix(s.key(spaceName), spaceName+"/")
		place, placed := status[object]
		if s.never() {
			if placed {
				w.t.Errorf("%s is placed", object)
			}
			continue
		}
		if err := place.is("Applied"); err != nil {
			all = append(all, fmt.Errorf("%s: %w", object, err))
		}
	}
	p := status[refusedObject]
	if p.State != "Failed" || p.Reason != "Invalid" || !strings.Contains(p.Message, "endPort") {
		all = append(all, fmt.Errorf("what is refused is %+v", p))
	}
	return errors.Join(all...)
}

// same expects that the cluster has all that was written.
func (w *world) same() {
	w.t.Helper()
	for _, s := range w.all {
		if s.never() {
			continue
		}
		path, want := s.travels()
		got := w.target.get(w.t, path)
		if d := lacks(decode(w.t, want), got, ""); d != "" {
			w.t.Errorf("the cluster has %s otherwise: %s", path, d)
		}
	}
}

// quiet expects that nothing is written anywhere while nothing changes: what
// API servers, admission and controllers fill in is not taken for drift.
func (w *world) quiet() {
	w.t.Helper()
	const still, long = 3 * time.Second, 10 * time.Second
	last, since := w.revision(), time.Now()
	w.eventually("the log has come to rest", func() error {
		if now := w.revision(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < still {
			return errors.New("the log is being written")
		}
		return nil
	})
	start := time.Now()
	env.Throughout(w.t, long, func() error {
		if now := w.revision(); now != last {
			return fmt.Errorf("the hub's log went from revision %v to %v", last, now)
		}
		return nil
	})
	for _, e := range w.cluster.Requests(w.t, env.Filter{User: env.AgentUser, After: start, Writes: true}) {
		if why, ok := contested[e.Object.Resource]; ok {
			w.t.Logf("%s %s %s: %s", e.Verb, e.Object.Resource, e.Object.Name, why)
			continue
		}
		w.t.Errorf("in a quiet time the agent writes: %s %s %s, answered with %d", e.Verb, e.Object.Resource, e.Object.Name, e.Response.Code)
	}
}

// revision is that of the hub's log.
func (w *world) revision() any {
	w.t.Helper()
	return at(w.space.get(w.t, "/api/v1/configmaps?limit=1"), "metadata", "resourceVersion")
}

// gone says that nothing of the samples is left at the cluster, nor what its
// controllers made of them. The claim that the StatefulSet made stays, as its
// policy says, and so does the namespace that was made for the samples.
func (w *world) gone() error {
	var all []error
	for _, s := range w.all {
		if path, _ := s.travels(); w.target.has(w.t, path) {
			all = append(all, fmt.Errorf("%s is still there", path))
		}
	}
	pods := w.target.get(w.t, "/api/v1/namespaces/"+shop+"/pods")
	if items, _ := pods["items"].([]any); len(items) > 0 {
		all = append(all, fmt.Errorf("%d pods are still there", len(items)))
	}
	if !w.target.has(w.t, "/api/v1/namespaces/"+shop) {
		w.t.Error("the implied namespace is gone")
	}
	return errors.Join(all...)
}
