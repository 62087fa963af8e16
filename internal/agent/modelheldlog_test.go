package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reportOf returns the hub's report of an object in space s.
func (p *proofModel) reportOf(id key.Identity) wire.Report {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.hub.reports[key.Object{Space: "s", Identity: id}.Path()]
}

// TestModelHeldAndRestored restores a hub from a copy in which it holds an object that the agent has applied
// since then, and the agent loses its store. Nothing is to change, so nothing waits for an acceptance. When the
// hold ends, the object waits.
func TestModelHeldAndRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		id := identities[2]
		k := key.Object{Space: "s", Identity: id}.Path()
		p.hub.mu.Lock()
		p.hub.write(wire.Frame{Hold: &wire.Hold{Key: k, UID: "u-s1", Digest: wire.SumOf([]byte("hold")), Reason: v1alpha1.ReasonSuspended, Error: "rule"}})
		p.hub.mu.Unlock()
		<-time.After(30 * time.Second)
		copied := p.revision()
		p.offerAll("1", id, identities[3])
		p.lose(func() { p.hub.restore(copied) })
		<-time.After(5 * time.Minute)
		p.expectValues("restored", map[key.Identity]string{id: "1"})
		if r := p.reportOf(id); r.State != wire.Held {
			t.Errorf("while the hub holds it, the report is %s/%s", r.State, r.Reason)
		}
		p.waits("restored", 1) // the other object, which the copy does not have
		p.offer(id, "2", wire.Policy{})
		<-time.After(5 * time.Minute)
		p.expectValues("offered again", map[key.Identity]string{id: "1"})
		p.waits("offered again", 2)
		p.accept()
		<-time.After(5 * time.Minute)
		p.expectValues("accepted", map[key.Identity]string{id: "2", identities[3]: ""})
		p.waits("accepted", 0)
	})
}

// TestModelLostBeforeRestored has an agent lose its store, and its hub restored before the agent receives
// the log again. An object whose place only the lost log has is left alone, although its content is the same.
func TestModelLostBeforeRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		id := identities[2]
		dir := p.stop(true)
		p.offer(id, "1", wire.Policy{})
		copied := p.revision()
		p.offer(identities[3], "1", wire.Policy{})
		p.hub.mu.Lock()
		p.hub.window = p.hub.revision // so the agent gets both in a comparison, at this revision
		p.hub.mu.Unlock()
		p.start(dir)
		<-time.After(30 * time.Second)
		p.expectValues("applied", map[key.Identity]string{id: "1"})
		p.lose(func() { p.hub.mood.away = true })
		<-time.After(30 * time.Second)
		p.hub.mu.Lock()
		p.hub.mood = mood{}
		p.hub.restore(copied)
		p.hub.mu.Unlock()
		<-time.After(5 * time.Minute)
		p.expectValues("restored", map[key.Identity]string{id: "1", identities[3]: "1"})
		p.waits("restored", 2)
		if r := p.reportOf(id); r.State != wire.Waiting || r.Reason != v1alpha1.ReasonLogUnproven {
			t.Errorf("the report is %s/%s", r.State, r.Reason)
		}
		p.accept()
		<-time.After(5 * time.Minute)
		p.expectValues("accepted", map[key.Identity]string{id: "1", identities[3]: ""})
		p.waits("accepted", 0)
	})
}
