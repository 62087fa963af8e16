package agent

import (
	"fmt"
	"strings"
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

// TestModelAggregatedMoved shows that a report from the time in which a kind was of an aggregated API does not count
// after the cluster has served the kind by a CustomResourceDefinition. The report comes from a hub that was restored.
// Without the definition its objects are gone, so their removals end.
func TestModelAggregatedMoved(t *testing.T) {
	widget := identities[7]
	other := key.Identity{Resource: widget.Resource, Namespace: widget.Namespace, Name: "other"}
	paths := map[key.Identity]string{}
	for _, id := range []key.Identity{widget, other} {
		paths[id] = key.Object{Space: "s", Identity: id}.Path()
	}
	for _, isNew := range []bool{false, true} {
		t.Run(fmt.Sprintf("a new store since the move: %t", isNew), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				reportOf := func(id key.Identity) (wire.Report, bool) {
					p.hub.mu.Lock()
					defer p.hub.mu.Unlock()
					r, ok := p.hub.reports[paths[id]]
					return r, ok
				}
				p.onCluster(func(c *cluster) { c.aggregated = "up" })
				p.offerAll("1", widget, other)
				old, _ := reportOf(widget)
				p.onCluster(func(c *cluster) { c.aggregated = "gone"; c.epoch++; c.wake() })
				<-time.After(time.Minute)
				p.onCluster(func(c *cluster) {
					c.set(widgetsCRD.String(), &thing{id: widgetsCRD, kind: "CustomResourceDefinition", foreign: true, fields: map[string]string{}})
					c.aggregated = ""
					c.epoch++
					c.wake()
				})
				<-time.After(20 * time.Minute)
				p.hub.mu.Lock()
				p.hub.write(del(paths[widget], wire.Deleted))
				p.hub.mu.Unlock()
				<-time.After(time.Minute)
				if isNew {
					p.lose(func() {
						r := p.hub.reports[paths[other]]
						r.Aggregated = false
						p.hub.reports[paths[other]] = r
					})
					<-time.After(time.Minute)
				}
				if _, reported := reportOf(widget); !old.Aggregated || reported || p.there(widget) != "" || p.there(other) == "" {
					t.Fatalf("before the definition goes, the report was %+v, is there: %t, and the objects are %q and %q", old, reported, p.there(widget), p.there(other))
				}
				p.onCluster(func(c *cluster) { c.remove(widgetsCRD.String()) })
				<-time.After(20 * time.Minute)
				p.hub.mu.Lock()
				p.hub.reports[paths[widget]] = old
				p.hub.start()
				p.hub.mu.Unlock()
				<-time.After(20 * time.Minute)
				p.hub.mu.Lock()
				p.leave(paths[other], other, p.hub.content(p.hub.revision)[paths[other]])
				p.hub.mu.Unlock()
				<-time.After(20 * time.Minute)
				for _, id := range []key.Identity{widget, other} {
					if r, reported := reportOf(id); reported {
						t.Errorf("the report of %s still says %s: %s: %s", id, r.State, r.Reason, r.Message)
					}
				}
				p.hub.mu.Lock()
				defer p.hub.mu.Unlock()
				if gone := p.hub.content(p.hub.revision)[paths[other]].Gone; gone != nil {
					t.Error("the removal of the other object still waits for a confirmation")
				}
			})
		})
	}
}

// TestModelAggregatedHalted shows that the report of a removal that waits for an aggregated API shows the halt while the
// agent is halted, and ends after the halt when the API is served again. The agent has a record of the object, or only
// the hub's report, with or without another object of the kind.
func TestModelAggregatedHalted(t *testing.T) {
	widget := identities[7]
	other := key.Identity{Resource: widget.Resource, Namespace: widget.Namespace, Name: "other"}
	path := key.Object{Space: "s", Identity: widget}.Path()
	for _, lost := range []bool{false, true} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("the store is lost: %t, another of the kind is placed: %t", lost, used), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newProofModel(t)
					defer p.stop(true)
					serve := func(how string) {
						p.onCluster(func(c *cluster) { c.aggregated = how; c.epoch++; c.wake() })
					}
					halt := func(why string) {
						p.hub.mu.Lock()
						p.hub.settings.Halt = why
						p.hub.say()
						p.hub.mu.Unlock()
						<-time.After(20 * time.Minute)
					}
					expectReason := func(reason, text string) {
						t.Helper()
						p.hub.mu.Lock()
						defer p.hub.mu.Unlock()
						if r := p.hub.reports[path]; r.State != wire.Removing || r.Reason != reason || !strings.Contains(r.Message, text) || r.Digest.IsZero() {
							t.Errorf("the report is not Removing with the reason %s and %q: %+v", reason, text, r)
						}
					}
					serve("up")
					p.offerAll("1", widget)
					if used {
						p.offerAll("1", other)
					}
					serve("gone")
					<-time.After(time.Minute)
					halt("paused")
					if lost {
						p.lose(func() { p.hub.write(del(path, wire.Deleted)) })
					} else {
						p.hub.mu.Lock()
						p.hub.write(del(path, wire.Deleted))
						p.hub.mu.Unlock()
					}
					<-time.After(20 * time.Minute)
					expectReason(v1alpha1.ReasonHalted, "paused")
					halt("")
					expectReason(v1alpha1.ReasonNoSuchResource, "an API server serves it again")
					halt("paused again")
					expectReason(v1alpha1.ReasonHalted, "paused again")
					halt("")
					serve("up")
					<-time.After(20 * time.Minute)
					p.hub.mu.Lock()
					report, reported := p.hub.reports[path]
					p.hub.mu.Unlock()
					if reported || p.there(widget) != "" {
						t.Errorf("with the API back, the object is %q, and its report %+v", p.there(widget), report)
					}
				})
			})
		}
	}
}

// TestModelAggregatedOlderHub shows that an agent does not resend its reports of objects of aggregated APIs at each start
// to a hub that does not keep wire.Report.Aggregated, and sends them once to a newer one.
func TestModelAggregatedOlderHub(t *testing.T) {
	widget := identities[7]
	path := key.Object{Space: "s", Identity: widget}.Path()
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		p.onCluster(func(c *cluster) { c.aggregated = "up" })
		sent, took := 0, p.hub.took
		p.hub.mu.Lock()
		p.hub.dropsAggregated = true
		p.hub.took = func(l wire.ReportLine) { sent++; took(l) }
		p.hub.mu.Unlock()
		p.offerAll("1", identities[2], widget)
		check := func(what string, want int, aggregated bool) {
			t.Helper()
			<-time.After(5 * time.Minute)
			p.hub.mu.Lock()
			defer p.hub.mu.Unlock()
			if r := p.hub.reports[path]; sent != want || r.State != wire.Applied || r.Aggregated != aggregated {
				t.Errorf("%s, %d reports were sent, want %d; the hub has %+v", what, sent, want, r)
			}
			sent = 0
		}
		<-time.After(time.Minute)
		sent = 0
		for range 3 {
			p.start(p.stop(true))
			check("at a start of the agent", 0, false)
			p.hub.mu.Lock()
			p.hub.start()
			p.hub.mu.Unlock()
			check("at a start of the hub", 0, false)
		}
		p.hub.mu.Lock()
		p.hub.dropsAggregated = false
		p.hub.start()
		p.hub.mu.Unlock()
		check("after the update of the hub", 1, true)
	})
}
