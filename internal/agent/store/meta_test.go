package store

import (
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/wire"
)

// TestHear shows which settings are followed at once, and which wait for a proof.
func TestHear(t *testing.T) {
	confirm := []wire.Confirmation{{Digest: "d"}}
	for name, c := range map[string]struct {
		old, received, want wire.Settings
		proven, fresh       bool
		waits               bool
	}{
		"proven": {
			old: wire.Settings{Halt: "h", PruneMaxPercent: 1}, received: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm},
			want: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm}, proven: true,
		},
		"loosened": {
			old: wire.Settings{Halt: "h", PruneMaxPercent: 1}, received: wire.Settings{Purge: true, PruneMaxPercent: 9, Confirm: confirm, Accept: "m"},
			want: wire.Settings{Halt: "h", PruneMaxPercent: 1, Accept: "m"}, waits: true,
		},
		"tightened": {
			old: wire.Settings{Purge: true, PruneMaxPercent: 9}, received: wire.Settings{Halt: "h", PruneMaxPercent: 1, HeartbeatSeconds: 3},
			want: wire.Settings{Halt: "h", PruneMaxPercent: 1, HeartbeatSeconds: 3},
		},
		"a purge goes on": {
			old: wire.Settings{Purge: true}, received: wire.Settings{Purge: true}, want: wire.Settings{Purge: true},
		},
		"a new store": {
			old: wire.Settings{Halt: "h", PruneMaxPercent: 30}, received: wire.Settings{Purge: true, PruneMaxPercent: 90, Confirm: confirm},
			want: wire.Settings{PruneMaxPercent: 30}, proven: true, fresh: true, waits: true,
		},
		"a new store takes over": {
			received: wire.Settings{TakesOver: []string{"a.00000001"}}, want: wire.Settings{TakesOver: []string{"a.00000001"}}, proven: true, fresh: true,
		},
		"an unproven log gives nobody's objects away": {
			old: wire.Settings{TakesOver: []string{"a.00000001", "c.00000003"}}, received: wire.Settings{TakesOver: []string{"a.00000001", "b.00000002"}},
			want: wire.Settings{TakesOver: []string{"a.00000001"}}, waits: true,
		},
	} {
		m := Meta{Settings: c.old, Fresh: c.fresh}
		for range 2 { // saying it again changes nothing
			m.applySettings(c.received, c.proven)
			if !m.Settings.Equal(c.want) || (m.Waiting != nil) != c.waits {
				t.Errorf("%s: %+v is followed, and %v waits", name, m.Settings, m.Waiting)
			}
		}
		if c.want.Halt == "h" && c.received.Halt == "" != strings.Contains(m.Halt(), "accepted") {
			t.Errorf("%s: it says %q", name, m.Halt())
		}
		m.Fresh = false
		if m.applySettings(c.received, true); !m.Settings.Equal(c.received) || m.Waiting != nil {
			t.Errorf("%s: once it is proven, %+v is followed", name, m.Settings)
		}
	}
}
