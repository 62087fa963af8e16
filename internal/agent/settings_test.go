package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelSettingsWait restores a hub from a copy in which the location is not paused
// and everything is to go. The agent neither works on nor purges until that is accepted.
func TestModelSettingsWait(t *testing.T) {
	for name, lost := range map[string]bool{"with a store": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				before, after := identities[2], identities[3]
				p.offer(before, "1", wire.Policy{})
				<-time.After(30 * time.Second)
				copied := p.revision()
				p.offer(after, "2", wire.Policy{})
				<-time.After(30 * time.Second)
				say := func(halt string, purge bool, percent int) {
					p.hub.settings.Halt, p.hub.settings.Purge, p.hub.settings.PruneMaxPercent = halt, purge, percent
					p.hub.say()
				}
				p.hub.mu.Lock()
				say("paused", false, 10)
				p.hub.mu.Unlock()
				<-time.After(30 * time.Second)
				restore := func() {
					p.hub.restore(copied)
					p.hub.write(del(key.Object{Space: "s", Identity: before}.Path(), wire.Unassigned)) // the purge
					say("", true, 90)
				}
				if lost {
					p.lose(restore)
				} else {
					p.hub.mu.Lock()
					restore()
					p.hub.mu.Unlock()
				}
				<-time.After(5 * time.Minute)
				p.expectValues("restored", map[key.Identity]string{before: "1", after: "2"})
				m := p.agent.store.Meta()
				if m.Settings.Purge || m.Settings.PruneMaxPercent > 30 || !lost && m.Settings.Halt == "" {
					t.Errorf("%+v is followed", m.Settings)
				}
				p.accept()
				<-time.After(20 * time.Minute)
				p.expectValues("accepted", map[key.Identity]string{before: "", after: ""})
				if m := p.agent.store.Meta(); !m.Settings.Purge || m.Settings.Halt != "" || m.Fresh {
					t.Errorf("%+v is followed after the acceptance", m.Settings)
				}
			})
		})
	}
}

// TestLeaseBounds: an agent does not start with a Lease that would be renewed all the time, or
// that would keep others waiting for longer than a minute.
func TestLeaseBounds(t *testing.T) {
	for lasts, good := range map[time.Duration]bool{
		0: true, time.Second: true, 15 * time.Second: true, time.Minute: true,
		-time.Second: false, time.Millisecond: false, time.Second - 1: false, time.Minute + 1: false, time.Hour: false,
	} {
		c := Config{Join: wire.Join{Hub: "https://hub", CA: "x", Location: "paris", Token: "t"}, Target: &rest.Config{}, DataDir: "d", LeaseDuration: lasts}
		if err := c.Validate(); (err == nil) != good {
			t.Errorf("a Lease for %s: %v", lasts, err)
		}
	}
}
