package agent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelAggregatedAway shows that an agent with a new store, which knows an object of an aggregated API only by the
// hub's report, remembers it while that API is away, also over a restart, and removes it when the API is there again.
func TestModelAggregatedAway(t *testing.T) {
	widget := identities[7]
	other := key.Identity{Resource: widget.Resource, Namespace: widget.Namespace, Name: "other"}
	path := key.Object{Space: "s", Identity: widget}.Path()
	for _, away := range []string{"gone", "down"} {
		for _, used := range []bool{false, true} {
			for starts, announced := range []bool{false, false, true} {
				t.Run(fmt.Sprintf("%s, another of the kind is placed: %t, announced: %t, %d starts", away, used, announced, starts), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := newProofModel(t)
						defer p.stop(true)
						p.onCluster(func(c *cluster) { c.aggregated = "up" })
						p.offer(widget, "1", wire.Policy{})
						if used {
							p.offer(other, "1", wire.Policy{})
						}
						<-time.After(time.Minute)
						uid := p.there(widget)
						serve := func(how string) {
							p.onCluster(func(c *cluster) { c.aggregated = how; c.epoch++; c.wake() })
						}
						p.lose(func() {
							if announced { // it was about to be made
								r := p.hub.reports[path]
								r.Reason, r.Digest = v1alpha1.ReasonAnnounced, wire.Sum{}
								p.hub.reports[path] = r
							}
							p.hub.write(del(path, wire.Unassigned))
							p.world.cluster.mu.Lock()
							defer p.world.cluster.mu.Unlock()
							p.world.cluster.aggregated = away
							p.world.cluster.epoch++
							p.world.cluster.wake()
						})
						<-time.After(20 * time.Minute)
						for range starts {
							p.start(p.stop(false))
							<-time.After(20 * time.Minute)
						}
						p.hub.mu.Lock()
						report, reported := p.hub.reports[path]
						p.hub.mu.Unlock()
						if uid == "" || p.there(widget) != uid || !reported || report.State != wire.Removing || report.Digest.IsZero() != announced {
							t.Errorf("while the API is away, %q is %q, and its report %t: %+v", uid, p.there(widget), reported, report)
						}
						if away == "gone" && report.Reason != v1alpha1.ReasonNoSuchResource {
							t.Errorf("the report has the reason %s", report.Reason)
						}
						serve("up")
						<-time.After(20 * time.Minute)
						p.hub.mu.Lock()
						_, reported = p.hub.reports[path]
						p.hub.mu.Unlock()
						if p.there(widget) != "" || reported {
							t.Errorf("with the API back, the object is %q, and its report is there: %t", p.there(widget), reported)
						}
						if used && p.there(other) == "" {
							t.Error("the other object is gone")
						}
					})
				})
			}
		}
	}
}
