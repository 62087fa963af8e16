package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelMutated has admission change what is applied for hours, over restarts. The
// agent reports it, tries again less and less often, and stops when admission agrees.
func TestModelMutated(t *testing.T) {
	for name, policy := range map[string]wire.Policy{"repaired": {}, "reported": {ReportDrift: true}, "unseen": {}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer func() { w.stop(true) }()
				id := identities[2]
				w.onCluster(func(c *cluster) {
					c.weather.paints = true
					c.closed[id.Resource] = name == "unseen"
				})
				path := key.Object{Space: "s", Identity: id}.Path()
				w.hub.mu.Lock()
				w.offer(path, "u", wire.Frame{}, map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "1", "more": "2"},
					"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
				}, policy)
				w.hub.mu.Unlock()
				expect := func(what, reason, value string, from, to int, after time.Duration) {
					t.Helper()
					before, got := w.written(), ""
					<-time.After(after)
					writes := w.written() - before
					w.onCluster(func(c *cluster) { got = c.objects[id.String()].fields[fieldPath("data", "v")] })
					if got != `"`+value+`"` || writes < from || writes > to {
						t.Errorf("%s: the value is %s after %d writes", what, got, writes)
					}
					w.hub.mu.Lock()
					defer w.hub.mu.Unlock()
					if r := w.hub.reports[path]; r.State != wire.Applied || r.Reason != reason || reason == v1alpha1.ReasonMutated && r.Message != decide.MutatedBy(&store.Mutation{Fields: ".data.v"}, 0).Message {
						t.Errorf("%s: the report is %+v", what, r)
					}
				}
				expect("at first", v1alpha1.ReasonMutated, "painted", 2, 8, 2*time.Minute)
				expect("for long", v1alpha1.ReasonMutated, "painted", 14, 24, 3*time.Hour)
				for tried, now := w.written(), 0; now <= tried; now = w.written() { // the next try is far
					<-time.After(time.Second)
				}
				w.start(w.stop(false))
				expect("an agent that was killed", v1alpha1.ReasonMutated, "painted", 0, 0, time.Second)
				expect("after that", v1alpha1.ReasonMutated, "painted", 5, 9, time.Hour)
				dir := w.stop(true)
				<-time.After(24 * time.Hour)
				w.start(dir)
				expect("an agent that was away", v1alpha1.ReasonMutated, "painted", 0, 1, time.Second)
				w.endFaults()
				agrees := ""
				if name == "unseen" {
					agrees = v1alpha1.ReasonUnobserved
				}
				expect("the policy is gone", agrees, "1", 1, 1, 11*time.Minute)
				expect("it agrees", agrees, "1", 0, 0, 3*time.Hour)
			})
		})
	}
}

// TestModelMutatedAndLost has an agent lose its store, again and again, of which an
// object is as admission made it in a field that can't be changed. It is not
// recreated for that.
func TestModelMutatedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer func() { p.stop(true) }()
		id := identities[2]
		path := key.Object{Space: "s", Identity: id}.Path()
		p.onCluster(func(c *cluster) { c.weather.fixes = true })
		p.hub.mu.Lock()
		p.world.offer(path, "u-s1", wire.Frame{}, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "1", "fixed": "one"},
			"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
		}, wire.Policy{Recreate: true})
		p.hub.mu.Unlock()
		<-time.After(time.Hour)
		uid := func() (uid string) {
			p.onCluster(func(c *cluster) { uid = c.objects[id.String()].uid })
			return uid
		}
		first := uid()
		for range 3 {
			p.lose(func() {})
			<-time.After(time.Hour)
			if now := uid(); now != first {
				t.Errorf("it was recreated: %s is %s", first, now)
			}
			p.hub.mu.Lock()
			if r := p.hub.reports[path]; r.State != wire.Applied || r.Reason != v1alpha1.ReasonMutated {
				t.Errorf("the report is %+v", r)
			}
			p.hub.mu.Unlock()
		}
	})
}
