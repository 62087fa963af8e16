package mapper

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// TestHear shows which settings are followed at once, and which wait for a proof.
func TestHear(t *testing.T) {
	confirm := []wire.Confirmation{{Digest: "d"}}
	for name, c := range map[string]struct {
		had, heard, want wire.Settings
		proven, fresh    bool
		waits            bool
	}{
		"proven": {
			had: wire.Settings{Halt: "h", PruneMaxPercent: 1}, heard: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm},
			want: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm}, proven: true,
		},
		"loosened": {
			had: wire.Settings{Halt: "h", PruneMaxPercent: 1}, heard: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm, Accept: "m"},
			want: wire.Settings{Halt: "h", PruneMaxPercent: 1, Accept: "m"}, waits: true,
		},
		"tightened": {
			had: wire.Settings{Purge: true, PruneMaxPercent: 9}, heard: wire.Settings{Halt: "h", PruneMaxPercent: 1, HeartbeatSeconds: 3},
			want: wire.Settings{Halt: "h", PruneMaxPercent: 1, HeartbeatSeconds: 3},
		},
		"a purge goes on": {
			had: wire.Settings{Purge: true}, heard: wire.Settings{Purge: true}, want: wire.Settings{Purge: true},
		},
		"a new store": {
			had: wire.Settings{Halt: "h", PruneMaxPercent: 30}, heard: wire.Settings{Purge: true, PruneMaxPercent: 90, Confirm: confirm},
			want: wire.Settings{PruneMaxPercent: 30}, proven: true, fresh: true, waits: true,
		},
	} {
		m := meta{Settings: c.had, Fresh: c.fresh}
		for range 2 { // saying it again changes nothing
			m.hear(c.heard, c.proven)
			if !m.Settings.Equal(c.want) || (m.Heard != nil) != c.waits {
				t.Errorf("%s: %+v is followed, and %v waits", name, m.Settings, m.Heard)
			}
		}
		if c.want.Halt == "h" && c.heard.Halt == "" != strings.Contains(m.halt(), "accepted") {
			t.Errorf("%s: it says %q", name, m.halt())
		}
		m.Fresh = false
		if m.hear(c.heard, true); !m.Settings.Equal(c.heard) || m.Heard != nil {
			t.Errorf("%s: once it is proven, %+v is followed", name, m.Settings)
		}
	}
}

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
				p.has("restored", map[key.Identity]string{before: "1", after: "2"})
				m := p.agent.store.meta.Load()
				if m.Settings.Purge || m.Settings.PruneMaxPercent > 30 || !lost && m.Settings.Halt == "" {
					t.Errorf("%+v is followed", m.Settings)
				}
				p.accept()
				<-time.After(20 * time.Minute)
				p.has("accepted", map[key.Identity]string{before: "", after: ""})
				if m := p.agent.store.meta.Load(); !m.Settings.Purge || m.Settings.Halt != "" || m.Fresh {
					t.Errorf("%+v is followed after the acceptance", m.Settings)
				}
			})
		})
	}
}
