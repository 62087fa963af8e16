package decide

import (
	"testing"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestLiveOf shows that the health is that of our object, as observed after its last write.
func TestLiveOf(t *testing.T) {
	deployments, configMaps := key.NewResource("apps", "deployments"), key.NewResource("", "configmaps")
	jobs := key.NewResource("batch", "jobs")
	rec := &store.Record{UID: "u", Generation: 3}
	seen := func(uid string, generation int64) *store.Live {
		return &store.Live{UID: uid, Generation: generation, Health: wire.Degraded, Detail: "why", Status: []byte(`{}`), Wanted: &wire.Wanted{}}
	}
	ran := &wire.Report{Health: wire.Healthy}
	for name, c := range map[string]struct {
		r      key.Resource
		seen   Observed
		rec    *store.Record
		last   *store.Live
		ended  string
		before *wire.Report
		want   wire.Health
		detail string
	}{
		"as it was seen":                         {deployments, Observed{Existence: Present}, rec, seen("u", 3), "", nil, wire.Degraded, "why"},
		"seen before the change":                 {deployments, Observed{Existence: Present}, rec, seen("u", 2), "", nil, wire.Progressing, notSeen},
		"another before it":                      {deployments, Observed{Existence: Present}, rec, seen("v", 3), "", nil, wire.Progressing, notSeen},
		"made just now":                          {deployments, Observed{Existence: Present}, rec, nil, "", nil, wire.Progressing, notSeen},
		"by an older agent":                      {deployments, Observed{Existence: Present}, rec, &store.Live{Status: []byte(`{}`)}, "", nil, wire.Progressing, notSeen},
		"of another owner":                       {deployments, Observed{Existence: Foreign}, rec, seen("u", 3), "", nil, "", ""},
		"gone":                                   {deployments, Observed{Existence: Absent}, rec, seen("u", 3), "", nil, "", ""},
		"not ours":                               {deployments, Observed{Existence: Present}, nil, seen("u", 3), "", nil, "", ""},
		"can't be observed":                      {deployments, Observed{Existence: Blind}, rec, seen("u", 3), "", nil, wire.HealthUnknown, notLooked},
		"without a status":                       {configMaps, Observed{Existence: Present}, rec, nil, "", nil, wire.Healthy, ""},
		"... and not observed":                   {configMaps, Observed{Existence: Blind}, rec, nil, "", nil, wire.HealthUnknown, notLooked},
		"... being deleted":                      {configMaps, Observed{Existence: Present, Terminating: true}, rec, nil, "", nil, wire.Progressing, "Resource scheduled for deletion"},
		"it ran, and is gone":                    {jobs, Observed{Existence: Absent}, rec, seen("u", 3), "Complete", ran, wire.Healthy, ""},
		"it is gone before its end was reported": {jobs, Observed{Existence: Absent}, rec, nil, "Complete", &wire.Report{Health: wire.Progressing, HealthNote: "1 active"}, wire.Healthy, ""},
		"it failed, and is gone before":          {jobs, Observed{Existence: Absent}, rec, nil, "Failed", &wire.Report{Health: wire.Progressing}, wire.Degraded, ""},
		"it failed, was seen, and is gone":       {jobs, Observed{Existence: Absent}, rec, seen("u", 3), "Failed", &wire.Report{Health: wire.Progressing}, wire.Degraded, "why"},
		"it ended, and was never reported":       {jobs, Observed{Existence: Absent}, rec, nil, "Complete", nil, wire.Healthy, ""},
		"it ended in a way that may not be read": {jobs, Observed{Existence: Absent}, rec, nil, "Ended", ran, wire.Healthy, ""},
		"it ran, and is there":                   {jobs, Observed{Existence: Present}, rec, seen("u", 3), "Failed", ran, wire.Degraded, "why"},
	} {
		t.Run(name, func(t *testing.T) {
			l := LiveOf(c.r, c.seen, c.rec, c.last, c.ended, c.before)
			if l.Health != c.want || l.Detail != c.detail {
				t.Errorf("%s %q, want %s %q", l.Health, l.Detail, c.want, c.detail)
			}
			// A Job that is created again is not Complete because its predecessor was.
			ours := c.rec != nil && c.last != nil && (c.last.UID == "" || c.last.UID == c.rec.UID)
			// A deleted object has no status, unless it ran to its end.
			ours = ours && (c.seen.Existence == Present || c.seen.Existence == Blind || c.ended != "")
			if exists := len(l.Status) > 0; exists != ours {
				t.Errorf("a status: %v, want %v", exists, ours)
			}
			if exists := l.Wanted != nil; exists != (ours && c.last.Wanted != nil) {
				t.Errorf("numbers of the spec: %v", exists)
			}
		})
	}
}
