package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelVersions has the version end that an object is written in, while its agent
// runs, while it does not, and with its store lost: the object stays, is followed, and is
// removed when it is no longer assigned.
func TestModelVersions(t *testing.T) {
	widget := identities[7]
	report := func(w *world) wire.Report { return w.reportsOf()["s/"+widget.String()] }
	for _, c := range []struct {
		name string
		// ends has the version end, and starts the agent if it does not run then.
		ends func(w *world)
		// untouched reports whether the object does not change meanwhile.
		untouched bool
	}{
		{name: "while it runs", ends: func(w *world) { w.onCluster(func(c *cluster) { c.serveIn("v2") }) }},
		{name: "while it runs, and no object changes", untouched: true, ends: func(w *world) {
			w.onCluster(func(c *cluster) { c.version = "v2"; c.epoch++; c.wake() })
		}},
		{name: "while it is down", ends: func(w *world) {
			dir := w.stop(false)
			w.onCluster(func(c *cluster) { c.serveIn("v2") })
			w.start(dir)
		}},
		{name: "with the store lost", ends: func(w *world) {
			w.lose(func() {
				w.cluster.mu.Lock()
				w.cluster.serveIn("v2")
				w.cluster.mu.Unlock()
			})
		}},
	} {
		for _, how := range []string{"removed", "removed with the store lost", "served again"} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1, dir)
					defer func() { w.stop(true) }()
					w.onCluster(func(cl *cluster) {
						cl.set(widgetsCRD.String(), &thing{id: widgetsCRD, kind: "CustomResourceDefinition", foreign: true})
					})
					w.edit(widget, 8, 1)
					if err := w.awaitSettled(true); err != nil {
						t.Fatal(err)
					}
					uid := w.there(widget)
					c.ends(w)
					<-time.After(5 * time.Minute)
					want := wire.Report{State: wire.Unsupported, Reason: v1alpha1.ReasonNoSuchVersion}
					if c.untouched {
						want = wire.Report{State: wire.Applied}
					}
					if now := report(w); now.State != want.State || now.Reason != want.Reason || w.there(widget) != uid {
						t.Fatalf("it is %+v", now)
					}
					switch how {
					case "served again":
						w.onCluster(func(c *cluster) { c.version = "v1"; c.epoch++; c.wake() })
						<-time.After(3 * time.Minute)
						if now := report(w); now.State != wire.Applied || now.Reason != "" || w.there(widget) != uid {
							t.Errorf("it is %+v", now)
						}
						return
					case "removed":
						w.drop(widget, 0, 1)
					default:
						w.lose(func() {
							w.hub.mu.Unlock()
							w.drop(widget, 0, 1)
							w.hub.mu.Lock()
						})
					}
					<-time.After(5 * time.Minute)
					if w.there(widget) != "" || len(w.reportsOf()) != 0 || w.recordOf(widget) != nil {
						t.Errorf("it is not gone; the reports are %+v", w.reportsOf())
					}
					if len(w.bad) > 0 {
						t.Error(w.bad)
					}
				})
			})
		}
	}
}
