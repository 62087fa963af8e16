package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelProtectedAndRestored has a policy protect an object without any other change
// of it, and then the hub restored from before that, below an agent without a store.
// The protection is not lost until that log is accepted.
func TestModelProtectedAndRestored(t *testing.T) {
	for name, policy := range map[string]wire.Policy{
		"createOnly": {CreateOnly: true}, "reportDrift": {ReportDrift: true}, "released": {Release: "$.data.v"}, "orphan": {Orphan: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				id := identities[2]
				p.offer(id, "1", wire.Policy{})
				<-time.After(30 * time.Second)
				copied := p.revision()
				p.offer(id, "1", policy)
				<-time.After(30 * time.Second)
				if !policy.Orphan {
					p.tamper(id, 5, 0)
				}
				<-time.After(30 * time.Second)
				all := map[key.Identity]string{id: p.value(id)}
				p.lose(func() { p.hub.restore(copied) })
				<-time.After(5 * time.Minute)
				if policy.Orphan {
					p.drop(id, 0, 1)
					<-time.After(5 * time.Minute)
				}
				p.expectValues("restored", all)
				p.waits("restored", 1)
				p.accept()
				<-time.After(20 * time.Minute)
				p.waits("accepted", 0)
			})
		})
	}
}

// TestModelRefusedAndLost loses the store of an agent whose cluster refuses an object for
// good. What is found at the cluster is proven all the same.
func TestModelRefusedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		refused, stray := identities[2], identities[3]
		p.offer(refused, "1", wire.Policy{})
		p.offer(stray, "1", wire.Policy{})
		<-time.After(30 * time.Second)
		p.offer(refused, "bad", wire.Policy{})
		<-time.After(30 * time.Second)
		p.lose(func() { p.hub.write(del(key.Object{Space: "s", Identity: stray}.Path(), wire.Unassigned)) })
		<-time.After(10 * time.Minute)
		p.expectValues("lost", map[key.Identity]string{refused: "1", stray: ""})
		p.waits("lost", 0)
		if p.agent.store.Meta().Fresh {
			t.Error("it is not proven what was found at the cluster")
		}
	})
}
