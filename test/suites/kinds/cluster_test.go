package kinds

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// refused is an object that a space stores and every API server refuses: a named port
// can't have an endPort.
const refused = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: refused, namespace: shop}
spec: {podSelector: {}, ingress: [{ports: [{port: http, endPort: 32768}]}]}
`

// changed is changed by the admission of the cluster, see env.MutatingPolicy.
const changed = `
apiVersion: v1
kind: ConfigMap
metadata: {name: changed, namespace: shop, labels: {change: "true"}}
data: {colour: blue, size: small}
`

// contested are resources whose samples a real cluster changes or removes by itself, and
// why that is right.
var contested = map[string]string{
	"ipaddresses": "the API server removes an address that no Service has, a minute after it was made",
}

// TestEveryKindAtACluster places all samples at a real cluster, whose controllers
// run, leaves them there for a while, and takes them back.
func TestEveryKindAtACluster(t *testing.T) {
	w := newWorld(t)
	env.Kubectl(t, w.kubeconfig, "create", "namespace", shop)
	env.Kubectl(t, w.kubeconfig, "apply", "--server-side", "-f", samplesDir)
	for _, s := range []sample{w.refused, w.changed} {
		w.space.must(t, http.MethodPost, s.collection(), asJSON, s.canonical)
	}
	w.space.must(t, http.MethodPost, placements, asJSON, placeAll(t, append(slices.Clone(w.all), w.refused, w.changed), location))

	w.eventually("all objects exist, except the rejected one", w.allApplied)
	w.eventually("the cluster has the written objects", w.same)
	w.space.must(t, http.MethodPatch, w.refused.path(), jsonPatch, []byte(`[{"op":"remove","path":"/spec/ingress/0/ports/0/endPort"}]`))
	w.eventually("the rejected object is applied after its correction", func() error {
		return w.status()[w.refused.object()].is("Applied")
	})
	w.quiet()
	w.eventually("the cluster still has the written objects", w.same)

	w.space.must(t, http.MethodDelete, placements+"/all", asJSON, nil)
	w.eventually("no object remains", w.gone)
}

// allApplied returns an error unless all samples are applied, and the state of the one object that
// the cluster rejects shows the rejection. Only the object that admission changes may count as
// mutated: different notations and defaults of API servers do not count.
func (w *world) allApplied() error {
	status := w.status()
	var all []error
	for _, s := range append(slices.Clone(w.all), w.changed) {
		place, placed := status[s.object()]
		if s.never() {
			if placed {
				w.t.Errorf("%s is placed", s.object())
			}
			continue
		}
		if err := place.is("Applied"); err != nil {
			all = append(all, fmt.Errorf("%s: %w", s.object(), err))
			continue
		}
		mutated, colour := place.Reason == "Mutated", strings.HasSuffix(place.Message, ": .data.colour")
		if isChanged := s.object() == w.changed.object(); mutated != isChanged || mutated != colour {
			w.t.Errorf("%s is %+v", s.object(), place)
		}
	}
	p := status[w.refused.object()]
	if p.State != "Failed" || p.Reason != "Invalid" || !strings.Contains(p.Message, "endPort") {
		all = append(all, fmt.Errorf("the rejected object is %+v", p))
	}
	return errors.Join(all...)
}

// same returns an error unless the cluster has all written objects.
func (w *world) same() error {
	var all []error
	compare := func(path string, want any) {
		code, got := w.target.do(w.t, http.MethodGet, path, asJSON, asJSON, nil)
		if d := lacks(want, decode(w.t, got), ""); code != http.StatusOK || d != "" {
			all = append(all, fmt.Errorf("in the cluster, %s differs (status %d): %s", path, code, d))
		}
	}
	for _, s := range w.all {
		if path, want := s.travels(); !s.never() {
			compare(path, withoutAggregated(decode(w.t, want)))
		}
	}
	compare(w.changed.path(), map[string]any{"data": map[string]any{"colour": "red", "more": "yes", "size": "small"}})
	return errors.Join(all...)
}

// withoutAggregated returns an object without the rules of an aggregated ClusterRole, which agents leave to the
// cluster.
func withoutAggregated(object any) any {
	if fields, ok := object.(map[string]any); ok && fields["aggregationRule"] != nil {
		delete(fields, "rules")
	}
	return object
}

// quiet checks that nothing is written anywhere while nothing changes: what API servers,
// admission and controllers fill in is not taken for drift.
func (w *world) quiet() {
	w.t.Helper()
	const still, long = 6 * time.Second, 10 * time.Second
	last, since := w.revision(), time.Now()
	w.eventually("the log has come to rest", func() error { // a loop that writes within that time never lets it
		now := w.revision()
		if now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < still+long {
			return fmt.Errorf("the log came to revision %v %s ago", last, quiet.Round(time.Millisecond))
		}
		return nil
	})
	for _, e := range w.cluster.AllRequests(w.t, env.Filter{User: env.AgentUser, After: since.Add(still), Writes: true}) {
		if why, ok := contested[e.Object.Resource]; ok {
			w.t.Logf("%s %s %s: %s", e.Verb, e.Object.Resource, e.Object.Name, why)
			continue
		}
		if e.Object.Name == "changed" {
			continue // it is tried again
		}
		w.t.Errorf("in a quiet time the agent writes: %s %s %s, answered with %d", e.Verb, e.Object.Resource, e.Object.Name, e.Response.Code)
	}
}

// gone returns an error unless nothing of the samples is left at the cluster, nor what
// its controllers made of them. The claim that the StatefulSet made stays, as its policy
// says, and so does the namespace that was created for the samples.
func (w *world) gone() error {
	var all []error
	for _, s := range append(slices.Clone(w.all), w.refused, w.changed) {
		if path, _ := s.travels(); w.target.exists(w.t, path) {
			all = append(all, fmt.Errorf("%s is still there", path))
		}
	}
	pods := w.target.get(w.t, "/api/v1/namespaces/"+shop+"/pods")
	if items, _ := pods["items"].([]any); len(items) > 0 {
		all = append(all, fmt.Errorf("%d pods are still there", len(items)))
	}
	if !w.target.exists(w.t, "/api/v1/namespaces/"+shop) {
		w.t.Error("the implied namespace is gone")
	}
	return errors.Join(all...)
}
