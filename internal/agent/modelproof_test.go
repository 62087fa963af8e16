package agent

import (
	"cmp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// proofModel is a world in which objects are offered by value.
type proofModel struct {
	*world
	t *testing.T
}

func newProofModel(t *testing.T) *proofModel {
	return &proofModel{world: newWorld(t, 1, t.TempDir()), t: t}
}

// playSeeds plays worlds of several seeds, and fails with what is wrong in them. In each world it
// starts at another time, by a multiple of 100 ms below the given number of them.
func playSeeds(t *testing.T, offsets int, play func(p *proofModel, after time.Duration) (wrong []string)) {
	const apart = 3
	worlds := offsets / apart
	for seed := range seeds.All(t, worlds) {
		var wrong []string
		dir := t.TempDir()
		offset := (apart*seed + seed/worlds) % offsets // the first worlds are far apart, later ones between them
		synctest.Test(t, func(t *testing.T) {
			p := &proofModel{world: newWorld(t, seed, dir), t: t}
			defer p.stop(true)
			wrong = play(p, time.Duration(offset)*100*time.Millisecond)
		})
		if len(wrong) > 0 {
			t.Errorf("seed %d: %s", seed, strings.Join(wrong, "\n"))
		}
	}
}

// offerAll offers objects with a value, and waits until they are applied.
func (p *proofModel) offerAll(v string, ids ...key.Identity) {
	for _, id := range ids {
		p.offer(id, v, wire.Policy{})
	}
	<-time.After(30 * time.Second)
}

func (p *proofModel) offer(id key.Identity, v string, policy wire.Policy) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	meta := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		meta["namespace"] = id.Namespace
	}
	p.world.offer(key.Object{Space: "s", Identity: id}.Path(), "u-s1", wire.Frame{}, map[string]any{
		"apiVersion": "v1", "kind": servedKind(id.Resource).kind, "data": map[string]any{"v": v}, "metadata": meta,
	}, policy)
}

func (p *proofModel) revision() int64 {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.hub.revision
}

// value returns the value of an object at the cluster; empty if it does not exist.
func (p *proofModel) value(id key.Identity) (v string) {
	p.onCluster(func(c *cluster) {
		if o := c.objects[id.String()]; o != nil {
			v = strings.Trim(o.fields[fieldPath("data", "v")], `"`)
		}
	})
	return v
}

func (p *proofModel) expectValues(what string, values map[key.Identity]string) {
	p.t.Helper()
	for id, want := range values {
		if got := p.value(id); got != want {
			p.t.Errorf("%s: %s has %q, want %q", what, id, got, want)
		}
	}
	p.world.cluster.mu.Lock()
	defer p.world.cluster.mu.Unlock()
	if len(p.bad) > 0 {
		p.t.Errorf("%s: %v", what, p.bad)
		p.bad = nil
	}
}

// waits checks the number of changes that wait for an acceptance.
func (p *proofModel) waits(what string, want int) {
	p.t.Helper()
	synctest.Wait()
	s := p.agent.Status()
	sent, err := p.agent.announcement()
	if err != nil {
		p.t.Fatal(err)
	}
	if s.Deferred != want || sent.Deferred != want || (sent.LogIdentity == wire.Unproven) != (want > 0) || (sent.Awaits != "") != (want > 0) {
		p.t.Errorf("%s: %d changes wait, not %d; it is said %+v", what, s.Deferred, want, sent)
	}
}

func (p *proofModel) accept() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.hub.settings.Accept = p.hub.marker(p.hub.revision)
	p.recordHubState()
	p.hub.say()
}

// restored has the agent lose its store and the hub start on an older copy of its
// log, in which there is neither the later value of one object nor another object.
func (p *proofModel) restored(policy wire.Policy) (kept, changed, fresh, deleted key.Identity) {
	kept, changed, fresh, deleted = identities[2], identities[3], identities[4], identities[5]
	for _, id := range []key.Identity{kept, changed, deleted} {
		p.offer(id, "1", policy)
	}
	<-time.After(30 * time.Second)
	copied := p.revision()
	p.offer(changed, "2", policy)
	p.offer(fresh, "2", policy)
	p.drop(deleted, 0, 1)
	<-time.After(30 * time.Second)
	p.lose(func() { p.hub.restore(copied) })
	<-time.After(5 * time.Minute)
	return kept, changed, fresh, deleted
}

// TestModelLostAndRestored has an agent lose its store while its hub is restored from
// an older copy. Nothing is deleted or set back until the log is accepted, and after
// that a store may be lost again.
func TestModelLostAndRestored(t *testing.T) {
	for name, policy := range map[string]wire.Policy{"applied": {}, "reportDrift": {ReportDrift: true}, "released": {Release: "$.data.more"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				kept, changed, fresh, deleted := p.restored(policy)
				p.expectValues("restored", map[key.Identity]string{kept: "1", changed: "2", fresh: "2", deleted: "1"})
				p.waits("restored", 2)
				p.hub.mu.Lock()
				r := p.hub.reports[key.Object{Space: "s", Identity: changed}.Path()]
				p.hub.mu.Unlock()
				if r.State != wire.Waiting || r.Reason != "LineageUnproven" {
					t.Errorf("the report says %s/%s", r.State, r.Reason)
				}
				p.start(p.stop(false)) // it knows its marker now
				<-time.After(5 * time.Minute)
				p.expectValues("started anew", map[key.Identity]string{kept: "1", changed: "2", fresh: "2", deleted: "1"})
				p.waits("started anew", 2)

				p.accept()
				<-time.After(5 * time.Minute)
				back := map[key.Identity]string{kept: "1", changed: "1", fresh: "", deleted: "1"}
				if policy.ReportDrift {
					delete(back, changed) // it cannot be distinguished from drift
				}
				p.expectValues("accepted", back)
				p.waits("accepted", 0)
				for i := range 2 {
					p.lose(func() {
						if i > 0 {
							p.hub.start()
						}
					})
					<-time.After(5 * time.Minute)
					p.expectValues("lost again", back)
					p.waits("lost again", 0)
				}
			})
		})
	}
}

// TestModelSeenAndRestored restores a hub from a copy older than what an agent has
// received and applied without a mark: in its first walk, which did not come to its end.
func TestModelSeenAndRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		ids := identities[2:6]
		p.offerAll("1", ids...)
		copied := p.revision()
		p.offerAll("2", ids...)
		if err := p.agent.store.Write(t.Context(), func(x *store.Tx) error { // as if no mark had come yet
			m := x.Meta()
			m.Seen = ownership.NewPair(m.Marker, m.Revision)
			m.Marker, m.Revision = "", 0
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		p.hub.mu.Lock()
		p.hub.restore(copied)
		p.hub.mu.Unlock()
		<-time.After(5 * time.Minute)
		p.expectValues("restored", map[key.Identity]string{ids[0]: "2", ids[1]: "2", ids[2]: "2", ids[3]: "2"})
		p.waits("restored", len(ids))
		p.accept()
		<-time.After(5 * time.Minute)
		p.expectValues("accepted", map[key.Identity]string{ids[0]: "1", ids[1]: "1", ids[2]: "1", ids[3]: "1"})
		p.waits("accepted", 0)
	})
}

// TestModelAcceptedAndLost has an agent accept the log of a restored hub with its store
// at hand, and lose the store after that, or in the middle of it. What it has at the
// cluster is by then, or in part, of the accepted log.
func TestModelAcceptedAndLost(t *testing.T) {
	for name, c := range map[string]struct {
		policy wire.Policy
		// writes is after how many the agent dies; 0: it does not.
		writes int
		// again reports whether the hub restarts before that.
		again bool
		// refused reports whether the cluster rejects an object of the accepted log.
		refused bool
	}{
		"later":      {},
		"createOnly": {policy: wire.Policy{CreateOnly: true}},
		"drift":      {policy: wire.Policy{ReportDrift: true}},
		"in between": {writes: 2},
		"hub anew":   {again: true},
		"refused":    {refused: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				ids := identities[2:6]
				<-time.After(30 * time.Second)
				copied := p.revision()
				all := map[key.Identity]string{}
				for _, id := range ids {
					p.offer(id, "1", c.policy)
					all[id] = "1"
				}
				<-time.After(30 * time.Second)
				now := map[key.Identity]string{ids[0]: "1"}
				if c.refused {
					now[ids[0]] = "bad"
					p.offer(ids[0], "bad", c.policy)
					<-time.After(30 * time.Second)
				}
				p.hub.mu.Lock()
				p.hub.restore(copied)
				p.hub.mu.Unlock()
				for _, id := range ids { // as users would write it again
					p.offer(id, cmp.Or(now[id], "1"), c.policy)
				}
				<-time.After(5 * time.Minute)
				p.expectValues("restored", all)
				if c.policy.ReportDrift {
					p.tamper(ids[0], 5, 0)
					<-time.After(time.Minute)
					all[ids[0]] = p.value(ids[0])
				}
				p.onCluster(func(cl *cluster) {
					if c.writes > 0 {
						p.line.last = c.writes
					}
				})
				p.accept()
				<-time.After(5 * time.Minute)
				if p.line.dead.Load() != (c.writes > 0) {
					t.Fatal("the agent did not die where it was to")
				}
				p.lose(func() {
					if c.again {
						p.hub.start()
					}
				})
				<-time.After(5 * time.Minute)
				p.expectValues("lost", all)
				p.waits("lost", 0)
				before := p.cluster.writes
				p.start(p.stop(true))
				<-time.After(5 * time.Minute)
				p.expectValues("started anew", all)
				if n := p.cluster.writes - before; n > 0 {
					t.Errorf("%d writes by a start with nothing to do; all there were: %q", n, p.cluster.wrote)
				}
			})
		})
	}
}
