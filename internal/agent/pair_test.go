package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// pairOf is the pair that an object names, and how many writes there were.
func (w *world) pairOf(id key.Identity) (p ownership.Pair, writes int) {
	w.onCluster(func(c *cluster) {
		if o := c.objects[id.String()]; o != nil {
			p = ownership.ParsePair(o.meta("annotations", v1alpha1.LogAnnotation))
		}
		writes = c.writes
	})
	return p, writes
}

// TestModelPair shows when the pair of an object is written: with each apply, and by
// itself where it is desired anew, or of an accepted log, without any other change.
func TestModelPair(t *testing.T) {
	for name, policy := range map[string]wire.Policy{
		"applied": {}, "createOnly": {CreateOnly: true}, "reportDrift": {ReportDrift: true}, "released": {Release: "$.data.v"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				id := identities[2]
				k := key.Object{Space: "s", Identity: id}.Path()
				offer := func(v string, p wire.Policy) {
					w.hub.mu.Lock()
					defer w.hub.mu.Unlock()
					w.offer(k, "u-s1", wire.Frame{}, map[string]any{
						"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": v, "w": v},
						"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
					}, p)
				}
				writes := 0
				step := func(what string, moves bool, most int) {
					t.Helper()
					<-time.After(2 * time.Minute)
					now, all := w.pairOf(id)
					w.hub.mu.Lock()
					latest := ownership.NewPair(w.hub.marker(w.hub.revision), w.hub.revision)
					w.hub.mu.Unlock()
					if moves && now != latest {
						t.Errorf("%s: the pair is %s, the hub is at %s", what, now, latest)
					}
					if n := all - writes; n > most || !moves && n > 0 {
						t.Errorf("%s: it took %d writes", what, n)
					}
					writes = all
				}
				offer("1", policy)
				step("made", true, 3)
				offer("2", policy)
				if policy.CreateOnly { // which is not written to, whatever its source becomes
					step("edited", false, 0)
				} else {
					step("edited", true, 2)
				}
				other := policy
				other.ReturnStatus = true
				offer("2", other)
				step("another policy", false, 0)
				w.hub.mu.Lock()
				w.hub.settings.Halt = "paused"
				w.hub.say()
				w.hub.mu.Unlock()
				<-time.After(time.Second)
				w.drop(id, 0, 1)
				<-time.After(time.Second)
				offer("2", other)
				w.heal()
				step("assigned anew", true, 1)
				w.hub.mu.Lock()
				w.hub.restore(w.hub.revision - 1)
				w.hub.settings.Accept = w.hub.marker(w.hub.revision)
				w.hub.say()
				w.hub.mu.Unlock()
				<-time.After(time.Minute)
				offer("2", other) // or the copy would not have it
				<-time.After(time.Minute)
				now, _ := w.pairOf(id)
				if now.Marker() != w.hub.settings.Accept {
					t.Errorf("accepted: the pair is %s, not of %s", now, w.hub.settings.Accept)
				}
				if len(w.bad) > 0 {
					t.Error(w.bad)
				}
			})
		})
	}
}
