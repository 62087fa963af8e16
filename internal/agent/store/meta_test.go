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
		"a new store takes over": {
			heard: wire.Settings{TakesOver: []string{"a.00000001"}}, want: wire.Settings{TakesOver: []string{"a.00000001"}}, proven: true, fresh: true,
		},
		"an unproven log gives nobody's objects away": {
			had: wire.Settings{TakesOver: []string{"a.00000001", "c.00000003"}}, heard: wire.Settings{TakesOver: []string{"a.00000001", "b.00000002"}},
			want: wire.Settings{TakesOver: []string{"a.00000001"}}, waits: true,
		},
	} {
		m := Meta{Settings: c.had, Fresh: c.fresh}
		for range 2 { // saying it again changes nothing
			m.applySettings(c.heard, c.proven)
			if !m.Settings.Equal(c.want) || (m.Heard != nil) != c.waits {
				t.Errorf("%s: %+v is followed, and %v waits", name, m.Settings, m.Heard)
			}
		}
		if c.want.Halt == "h" && c.heard.Halt == "" != strings.Contains(m.Halt(), "accepted") {
			t.Errorf("%s: it says %q", name, m.Halt())
		}
		m.Fresh = false
		if m.applySettings(c.heard, true); !m.Settings.Equal(c.heard) || m.Heard != nil {
			t.Errorf("%s: once it is proven, %+v is followed", name, m.Settings)
		}
	}
}
