package decide

import (
	"testing"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestDiagnosed: a diagnosis is reported of the observed object only, and never makes the health better.
func TestDiagnosed(t *testing.T) {
	deployments := key.NewResource("apps", "deployments")
	rec := &store.Record{UID: "u", Generation: 3}
	seen := func(uid string, generation int64, health wire.Health, final bool) *store.Live {
		return &store.Live{UID: uid, Generation: generation, Health: health, Diagnosis: &store.Diagnosis{Text: "no image", Final: final}}
	}
	for name, c := range map[string]struct {
		observed Existence
		last     *store.Live
		health   wire.Health
		want     string
	}{
		"progressing":           {Present, seen("u", 3, wire.Progressing, false), wire.Progressing, "no image"},
		"final":                 {Present, seen("u", 3, wire.Progressing, true), wire.Degraded, "no image"},
		"degraded":              {Present, seen("u", 3, wire.Degraded, false), wire.Degraded, "no image"},
		"a Job that can't run":  {Present, seen("u", 3, wire.Healthy, false), wire.Progressing, "no image"},
		"an earlier generation": {Present, seen("u", 2, wire.Progressing, true), wire.Progressing, ""},
		"another object":        {Present, seen("v", 3, wire.Progressing, true), wire.Progressing, ""},
		"gone":                  {Absent, seen("u", 3, wire.Progressing, true), "", ""},
		"not observed":          {Blind, seen("u", 3, wire.Progressing, true), wire.HealthUnknown, ""},
		"foreign":               {Foreign, seen("u", 3, wire.Progressing, true), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := LiveOf(deployments, Observed{Existence: c.observed}, rec, c.last, "", nil)
			if l.Health != c.health || l.Diagnosis != c.want {
				t.Errorf("%s %q, want %s %q", l.Health, l.Diagnosis, c.health, c.want)
			}
		})
	}
}
