package observe

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// shown is a Deployment of some 4 KB as a watch shows it; metadata leaves the rest out.
func shown(tb testing.TB) (whole, metadata []byte) {
	tb.Helper()
	fields := `{"f:spec":{` + strings.Repeat(`"f:strategy":{"f:type":{}},`, 40) + `"f:replicas":{}}}`
	meta := `"metadata":{"name":"web","namespace":"store","uid":"5d6c4c9e-8d0c-4a43-b3c5-2f9a7a7e0b11","resourceVersion":"1234","generation":3,` +
		`"labels":{"orrery.dev/location":"paris.00000000"},"managedFields":[{"manager":"x","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":` + fields + `}]}`
	spec := `"spec":{"replicas":3,"progressDeadlineSeconds":600,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}},` +
		`"template":{"spec":{"containers":[{"name":"c","image":"x","args":["` + strings.Repeat("a", 1500) + `"]}]}}}`
	status := `"status":{"observedGeneration":3,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"conditions":[` +
		`{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability.","lastUpdateTime":"2026-01-01T00:00:00Z"},` +
		`{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"ReplicaSet has successfully progressed."}]}`
	whole = []byte(`{"apiVersion":"apps/v1","kind":"Deployment",` + meta + `,` + spec + `,` + status + `}`)
	metadata = []byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",` + meta + `}`)
	for _, b := range [][]byte{whole, metadata} {
		if !json.Valid(b) {
			tb.Fatal("not JSON")
		}
	}
	return whole, metadata
}

// TestStoppedObserverForgets shows that what the store did not keep, since the observer was stopped, is
// to be stored when the next observer shows it again.
func TestStoppedObserverForgets(t *testing.T) {
	st, err := store.Open(t.TempDir(), "paris", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	e := worklist.New()
	defer e.Stop()
	deployments := key.NewResource("apps", "deployments")
	o := key.Object{Space: "s", Identity: key.Identity{Resource: deployments, Namespace: "n", Name: "a"}}
	e.Touch([]store.Touched{{Object: o, Want: &store.Want{Kind: store.WantHold}}})
	w := &observer{Observers: &Observers{engine: e, store: st}, Use: worklist.Use{Place: kubeclient.Place{Resource: deployments, Version: "v1"}}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	seen := []worklist.Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 1}}}
	for err == nil { // a stopped observer may still store it
		seen[0].Seen.Revision++
		seen[0].Health++
		err = w.show(stopped, seen, []*store.Live{{UID: "u"}}, 0)
	}
	if changed := e.Observe("", seen, 0); len(changed) != 1 {
		t.Errorf("%d objects are to be stored, want 1", len(changed))
	}
}

// BenchmarkSight is what one event costs: of a whole object, whose health is judged, and of
// metadata alone.
func BenchmarkSight(b *testing.B) {
	whole, metadata := shown(b)
	w := &observer{full: true, Use: worklist.Use{Place: kubeclient.Place{Resource: key.NewResource("apps", "deployments"), Version: "v1"}, Kind: "Deployment"}}
	for name, text := range map[string][]byte{"whole": whole, "metadata": metadata} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var o ownership.Observation
				if err := o.UnmarshalJSON(text); err != nil {
					b.Fatal(err)
				}
				if name == "whole" {
					hashes(w.live(&o), "")
				}
			}
		})
	}
}
