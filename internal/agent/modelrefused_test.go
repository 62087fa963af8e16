package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelRefusedReports has an object leave its location and come back while its first
// report is on its way, which the hub refuses: it has the report all the same in the end.
func TestModelRefusedReports(t *testing.T) {
	for _, away := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 10 * time.Second} {
		t.Run("away for "+away.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer func() { w.stop(true) }()
				id := identities[2]
				path := key.Object{Space: "s", Identity: id}.Path()
				gone := make(chan struct{}, 1)
				w.hub.mu.Lock()
				w.offer(path, "u", wire.Frame{}, map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "1"},
					"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
				}, wire.Policy{})
				placed := w.hub.content(w.hub.revision)[path]
				w.hub.reported = func() {
					w.hub.reported = func() {}
					w.hub.write(del(path, wire.Unassigned))
					gone <- struct{}{}
				}
				w.hub.mu.Unlock()
				<-gone
				<-time.After(away)
				w.hub.mu.Lock()
				w.hub.write(placed) // the same object in the same generation
				w.hub.mu.Unlock()
				if err := w.awaitSettled(true); err != nil {
					t.Fatal(err)
				}
				w.hub.mu.Lock()
				defer w.hub.mu.Unlock()
				if r := w.hub.reports[path]; r.State != wire.Applied {
					t.Errorf("the report is %+v", r)
				}
			})
		})
	}
}

// TestModelRejectedReports has a hub refuse one object's reports for ever: those of others
// get there, and it is not asked without end.
func TestModelRejectedReports(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		path := func(id key.Identity) string { return key.Object{Space: "s", Identity: id}.Path() }
		ids, requests := identities[2:4], 0
		w.hub.mu.Lock()
		w.hub.rejected = map[string]bool{path(ids[0]): true}
		w.hub.reported = func() { requests++ }
		for _, id := range ids {
			w.offer(path(id), "u-"+id.Name, wire.Frame{}, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "1"},
				"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
			}, wire.Policy{})
		}
		w.hub.mu.Unlock()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		if r := w.hub.reports[path(ids[1])]; r.State != wire.Applied {
			t.Errorf("the report of the other one is %+v", r)
		}
		if requests > 12 {
			t.Errorf("%d requests", requests)
		}
	})
}
