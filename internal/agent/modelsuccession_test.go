package agent

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// former is the mark of the location as models begin with it, heir that of another one.
const (
	former = "paris.11111111"
	heir   = "paris.33333333"
)

// takenOver removes the location and adds it again, to take over its objects, with an agent that
// has a new store. The objects in left are no longer assigned.
func (p *proofModel) takenOver(left ...key.Identity) {
	p.lose(func() {
		p.hub.uid, p.hub.settings.TakesOver = "22222222-location", []string{former}
		clear(p.hub.reports)
		for _, id := range left {
			p.hub.write(del(key.Object{Space: "s", Identity: id}.Path(), wire.Unassigned))
		}
		p.hub.start()
	})
}

// uids are those of the objects at the cluster.
func (p *proofModel) uids() map[string]string {
	all := map[string]string{}
	p.onCluster(func(c *cluster) {
		for id, o := range c.objects {
			all[id] = o.uid
		}
	})
	return all
}

// confirm confirms all removals that wait.
func (p *proofModel) confirm() {
	digest := p.agent.Status().PruneDigest
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.hub.settings.Confirm = []wire.Confirmation{{Digest: digest}}
	p.hub.say()
}

// taking is a case of TestModelTakesOver.
type taking struct {
	policy wire.Policy
	// left is how many of the objects are not assigned any more.
	left int
	// drift tampers with the first before.
	drift bool
	// writes is after how many the new agent dies; 0: it does not.
	writes int
}

// play returns the differences from the expected state.
func (c taking) play(p *proofModel, slow time.Duration) (wrong []string) {
	ids, all := identities[2:7], map[key.Identity]string{}
	for _, id := range ids {
		p.offer(id, "1", c.policy)
		all[id] = "1"
	}
	<-time.After(30 * time.Second)
	if c.drift {
		p.tamper(ids[0], 5, 0)
		<-time.After(time.Minute)
		all[ids[0]] = p.value(ids[0])
	}
	before := p.uids()
	p.onCluster(func(cl *cluster) { cl.weather.slow = slow })
	p.takenOver(ids[len(ids)-c.left:]...)
	if c.writes > 0 {
		p.onCluster(func(*cluster) { p.line.last = c.writes })
		<-time.After(2 * time.Minute)
		p.start(p.stop(false)) // it died, unless it had written all by then
	}
	<-time.After(30 * time.Minute)
	wrong = append(wrong, p.differences(all)...)
	wrong = append(wrong, p.strangers()...)
	if now := p.uids(); !maps.Equal(now, before) {
		wrong = append(wrong, fmt.Sprintf("%v became %v", before, now))
	}
	if n := p.agent.Status().Guarded; n != c.left {
		wrong = append(wrong, fmt.Sprintf("%d removals wait, not %d", n, c.left))
	}
	for range 2 { // what has drifted gets its place in the log with the next look at it
		p.start(p.stop(true))
		<-time.After(10 * time.Minute)
	}
	writes := p.cluster.writes
	p.start(p.stop(true))
	<-time.After(30 * time.Minute)
	if n := p.cluster.writes - writes; n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d writes while nothing changed", n))
	}
	p.confirm()
	<-time.After(10 * time.Minute)
	for _, id := range ids[len(ids)-c.left:] {
		all[id] = ""
	}
	return append(wrong, p.differences(all)...)
}

// TestModelTakesOver has a location take over what a former one left, by an agent that knows
// nothing. Nothing is deleted, made again or set back; what is not assigned waits, however
// little it is and wherever the agent dies, and goes once that is confirmed.
func TestModelTakesOver(t *testing.T) {
	for name, c := range map[string]taking{
		"assigned":       {},
		"nothing is":     {left: 5},
		"some are":       {left: 2},
		"createOnly":     {policy: wire.Policy{CreateOnly: true}, drift: true, left: 1},
		"drifted":        {policy: wire.Policy{ReportDrift: true}, drift: true},
		"released":       {policy: wire.Policy{Release: "$.data.v"}, left: 1},
		"dies at first":  {left: 3, writes: 1},
		"dies":           {left: 2, writes: 4},
		"dies later":     {left: 5, writes: 3},
		"dies with none": {left: 5, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			playSeeds(t, 6, c.play)
		})
	}
}

// TestModelTakesOverUnproven has a hub without the log by which the objects were written:
// nothing is taken over before its log is accepted.
func TestModelTakesOverUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		copied := p.revision()
		ids := identities[2:6]
		all := map[key.Identity]string{}
		for _, id := range ids {
			p.offer(id, "1", wire.Policy{})
			all[id] = "1"
		}
		<-time.After(30 * time.Second)
		p.lose(func() {
			p.hub.restore(copied)
			p.hub.uid, p.hub.settings.TakesOver = "22222222-location", []string{former}
			clear(p.hub.reports)
			p.hub.start()
		})
		writes := p.cluster.writes
		<-time.After(time.Hour)
		p.expectValues("unproven", all)
		p.waits("unproven", len(ids))
		if n := p.cluster.writes - writes; n > 0 {
			t.Errorf("%d writes before the log is accepted", n)
		}
		p.accept()
		<-time.After(time.Hour)
		p.expectValues("accepted", all)
		p.waits("accepted", 0)
		if n := p.agent.Status().Guarded; n != len(ids) {
			t.Errorf("%d removals wait", n)
		}
		if all := p.strangers(); len(all) > 0 {
			t.Error(all)
		}
	})
}

// succeed marks objects at the cluster as another location's agent does that takes over.
func (p *proofModel) succeed(ids ...key.Identity) {
	p.onCluster(func(c *cluster) {
		for _, id := range ids {
			n := c.objects[id.String()].copy()
			n.fields[fieldPath("metadata", "labels", v1alpha1.LocationLabel)] = `"` + heir + `"`
			n.fields[fieldPath("metadata", "annotations", v1alpha1.TakenFromAnnotation)] = `"` + former + `"`
			for m, paths := range n.owners {
				if m.manager == "orrery/"+former {
					delete(n.owners, m)
					n.owners[owner{"orrery/" + heir, m.operation}] = paths
				}
			}
			c.set(id.String(), n)
		}
	})
}

// TestModelSuccessorHalts lets an agent that no hub accepts observe an object that another
// location has taken over. It changes nothing any more, also after a restart,
// until a hub sends a hello for its location.
func TestModelSuccessorHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		ids := identities[2:6]
		p.offerAll("1", ids...)
		p.hub.mu.Lock()
		p.hub.mood.refuse = 401
		p.hub.start() // which ends the session
		p.hub.mu.Unlock()
		<-time.After(5 * time.Minute)
		p.succeed(ids[0])
		<-time.After(5 * time.Second)
		halted := func(when string) {
			t.Helper()
			if why := p.agent.Status().Halt; !strings.Contains(why, heir) {
				t.Errorf("%s: it is halted by %q", when, why)
			}
		}
		halted("taken over")
		writes := p.cluster.writes
		p.onCluster(func(c *cluster) { c.remove(ids[1].String()) }) // as the other location's agent does
		<-time.After(10 * time.Minute)
		p.start(p.stop(false))
		<-time.After(10 * time.Minute)
		halted("started anew")
		if p.value(ids[1]) != "" || p.cluster.writes != writes {
			t.Errorf("it made %d writes", p.cluster.writes-writes)
		}
		p.hub.mu.Lock()
		p.hub.mood.refuse = 0
		p.hub.mu.Unlock()
		<-time.After(10 * time.Minute)
		if why := p.agent.Status().Halt; why != "" {
			t.Errorf("its hub says that it exists, and it is halted by %q", why)
		}
		p.expectValues("the hub is back", map[key.Identity]string{ids[0]: "1", ids[1]: "1", ids[2]: "1", ids[3]: "1"})
	})
}

// TestModelSuccessorInASession writes such ownership metadata at the cluster while the agent has
// a session for its location: that is drift, and is repaired.
func TestModelSuccessorInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		id := identities[2]
		p.offer(id, "1", wire.Policy{})
		<-time.After(30 * time.Second)
		p.succeed(id)
		<-time.After(5 * time.Minute)
		if why := p.agent.Status().Halt; why != "" {
			t.Errorf("it is halted by %q", why)
		}
		if all := p.strangers(); len(all) > 0 {
			t.Error(all)
		}
	})
}
