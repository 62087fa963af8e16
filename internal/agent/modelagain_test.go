package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// madeAgain has the location deleted and made again under its name, and the hub's log
// accepted: what was done meanwhile is done while the agent works as the former one.
func (p *proofModel) madeAgain(meanwhile func()) {
	p.hub.mu.Lock()
	p.hub.uid = "22222222-location"
	p.hub.start()
	p.hub.mu.Unlock()
	<-time.After(2 * time.Minute)
	meanwhile()
	p.accept()
}

// strangers are objects that do not have the marks and the field manager of the location
// as it is now, or have those of the former one.
func (p *proofModel) strangers() (all []string) {
	mark := ownership.NewOwner("paris", p.hub.uid)
	p.onCluster(func(c *cluster) {
		for _, o := range c.objects {
			if implied(o) {
				continue
			}
			label, applies := o.meta("labels", v1alpha1.LocationLabel), false
			for m := range o.owners {
				applies = applies || m.manager == mark.Manager()
				if mark.Former(m.manager) {
					all = append(all, fmt.Sprintf("%s is still owned by %s", o.id, m.manager))
				}
			}
			if label != string(mark) || !applies {
				all = append(all, fmt.Sprintf("%s has the label %s", o.id, label))
			}
		}
	})
	return all
}

// remade is a case of TestModelMadeAgain.
type remade struct {
	policy wire.Policy
	// drift tampers with an object before the location is made again.
	drift bool
	// blind closes the kind to lists and watches, and edits an object meanwhile.
	blind bool
	// older reports whether the records are of an agent that did not store the owner of an object.
	older bool
	// writes is after how many of them the agent dies, once the log is accepted; 0: it
	// does not.
	writes int
}

// play returns the differences from the desired state.
func (c remade) play(p *proofModel, slow time.Duration) (wrong []string) {
	ids, all := []key.Identity{identities[2], identities[3], identities[4], identities[5]}, map[key.Identity]string{}
	for _, id := range ids {
		p.offer(id, "1", c.policy)
		all[id] = "1"
	}
	<-time.After(30 * time.Second)
	if c.blind {
		p.onCluster(func(cl *cluster) {
			cl.closed[key.NewResource("", "configmaps")] = true
			cl.epoch++
			cl.wake()
		})
		<-time.After(30 * time.Minute)
	}
	if c.older {
		p.forgetMarker(ids)
	}
	if c.drift {
		p.tamper(ids[0], 5, 0)
	}
	p.onCluster(func(cl *cluster) { cl.weather.slow = slow })
	p.madeAgain(func() {
		if c.drift {
			all[ids[0]] = p.value(ids[0])
		}
		if c.writes > 0 {
			p.onCluster(func(*cluster) { p.line.last = c.writes })
		}
	})
	<-time.After(10 * time.Second)
	if c.writes > 0 {
		if !p.line.dead.Load() {
			wrong = append(wrong, "the agent did not die where it was to")
		}
		p.start(p.stop(false))
	}
	p.endFaults()
	<-time.After(5 * time.Minute)
	wrong = append(wrong, p.strangers()...)
	wrong = append(wrong, p.differences(all)...)
	if c.drift && c.policy.ReportDrift {
		p.hub.mu.Lock()
		if r := p.hub.reports[key.Object{Space: "s", Identity: ids[0]}.Path()]; r.Reason != "Drifted" || strings.Contains(r.Message, v1alpha1.LocationLabel) {
			wrong = append(wrong, fmt.Sprintf("the report of what has drifted is %+v", r))
		}
		p.hub.mu.Unlock()
	}
	before := p.cluster.writes
	<-time.After(5 * time.Minute)
	if n := p.cluster.writes - before; n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d writes while nothing changed", n))
	}
	if c.blind {
		return wrong
	}
	p.lose(func() {})
	<-time.After(5 * time.Minute)
	if n := p.agent.Status().Deferred; n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d changes wait after the loss of the store", n))
	}
	for _, id := range slices.SortedFunc(maps.Keys(all), func(a, b key.Identity) int { return cmp.Compare(a.String(), b.String()) }) {
		p.drop(id, 0, 1)
		all[id] = ""
	}
	<-time.After(5 * time.Minute)
	return append(wrong, p.differences(all)...)
}

// forgetMarker replaces records by those of an agent that did not store the owner of an object.
func (p *proofModel) forgetMarker(ids []key.Identity) {
	if err := p.agent.store.Write(context.Background(), func(x *store.Tx) error {
		for _, id := range ids {
			r, err := x.Records.Get(id.String())
			if err != nil {
				return err
			}
			r.As = ""
			if err := x.PutRecord(id.String(), r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
}

// differences returns the objects with other values, and the violations found by checkChange.
func (p *proofModel) differences(values map[key.Identity]string) (all []string) {
	for id, want := range values {
		if got := p.value(id); got != want {
			all = append(all, fmt.Sprintf("%s has %q, want %q", id, got, want))
		}
	}
	p.world.cluster.mu.Lock()
	defer p.world.cluster.mu.Unlock()
	return append(all, p.bad...)
}

// TestModelMadeAgain deletes a location and makes it again under its name. Once that is
// accepted, all that is desired gets its marks and its field manager, however requests
// of the location as it was before and lists cross each other, and wherever the agent
// dies meanwhile; nothing else of it changes.
func TestModelMadeAgain(t *testing.T) {
	for name, c := range map[string]remade{
		"applied":     {},
		"repaired":    {drift: true},
		"createOnly":  {policy: wire.Policy{CreateOnly: true}},
		"reportDrift": {policy: wire.Policy{ReportDrift: true}},
		"drifted":     {policy: wire.Policy{ReportDrift: true}, drift: true},
		"released":    {policy: wire.Policy{Release: "$.data.v"}},
		"older":       {older: true},
		"older drift": {older: true, policy: wire.Policy{ReportDrift: true}},
		"blind":       {blind: true},
		"in between":  {writes: 3},
		"before":      {drift: true, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			playSeeds(t, 12, c.play)
		})
	}
}
