package rollup

import (
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestUnobserved shows what a status says while it may not be about what the source is now: a site
// has an earlier version, can't be seen, or has refused the object.
func TestUnobserved(t *testing.T) {
	t.Parallel()
	const source = `{"metadata":{"generation":2,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":1,"completions":1}}`
	deployment := key.NewResource("apps", "deployments")
	job := key.NewResource("batch", "jobs")
	custom := key.NewResource("example.org", "gizmos")
	const ready = `{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`
	const ended = `{"succeeded":1,"startTime":"2026-01-02T00:00:00Z","completionTime":"2026-01-02T00:00:01Z","conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`
	sound := func(l key.Location, status string) Report {
		return Report{Location: l, Sound: true, Generation: 2, Status: json.RawMessage(status), Health: wire.Healthy}
	}
	behind := func(p Report) Report { p.Behind, p.Generation = true, 1; return p }
	stale := func(p Report) Report { p.Stale = true; return p }
	failed := func(p Report) Report { p.Sound, p.Why = false, "Invalid"; return p }
	for _, c := range []struct {
		name     string
		resource key.Resource
		sites    []Report
		want     string // of the merged status
		alone    string // of that of Alone, with one part
	}{
		{
			"a custom kind, seen and current", custom, []Report{sound("a", ready)},
			`{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`,
			ready,
		},
		{
			"behind", custom, []Report{behind(sound("a", ready))},
			`{"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			`{"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"one of two can't be seen", custom, []Report{sound("a", ready), stale(sound("b", ready))},
			`{"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			"",
		},
		{
			"without conditions, behind", custom, []Report{behind(sound("a", `{"n":1}`))},
			`{"n":1,"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			`{"n":1,"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{"without conditions, current", custom, []Report{sound("a", `{"n":1}`)}, "", `{"n":1}`},
		{
			"without conditions, refused", custom, []Report{failed(sound("a", `{"n":1}`))},
			`{"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			`{"n":1,"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"with conditions, refused", custom, []Report{failed(sound("a", ready))},
			`{"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			`{"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"a: Invalid","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"with an observedGeneration, behind", custom, []Report{behind(sound("a", `{"observedGeneration":7,`+ready[1:]))},
			`{"observedGeneration":1,"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`,
			`{"observedGeneration":1,"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`,
		},
		{
			"a first generation that can't be seen", custom, []Report{stale(sound("a", `{"observedGeneration":1,`+ready[1:]))},
			"",
			`{"observedGeneration":0,"conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Ready","status":"Unknown","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"a Job that has ended in an earlier version", job,
			[]Report{behind(sound("a", ended))},
			`{"startTime":"2026-01-02T00:00:00Z","conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z","lastProbeTime":null}]}`,
			`{"startTime":"2026-01-02T00:00:00Z","conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"a Job that has ended at a site that can't be seen", job, []Report{stale(sound("a", ended))},
			`{"succeeded":1,"startTime":"2026-01-02T00:00:00Z","completionTime":"2026-01-02T00:00:01Z","conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z","lastProbeTime":null},
				{"type":"Complete","status":"True","message":"","lastTransitionTime":"2026-01-02T00:00:00Z","lastProbeTime":null}]}`,
			`{"succeeded":1,"startTime":"2026-01-02T00:00:00Z","completionTime":"2026-01-02T00:00:01Z","conditions":[
				{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"Complete","status":"True","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`,
		},
		{
			"a Pod that has ended in an earlier version", pods,
			[]Report{behind(sound("a", `{"phase":"Succeeded"}`))},
			`{"phase":"Pending","conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z","lastProbeTime":null}]}`,
			`{"phase":"Pending","conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"a: it has an earlier version","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{
			"a Deployment that can't be seen", deployment,
			[]Report{stale(sound("a", `{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}`))},
			`{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
				"conditions":[{"type":"Reconciling","status":"True","reason":"NotEverywhere","message":"not all locations can be seen now, see orrery status --state stale","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":null}]}`,
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := source
			if strings.Contains(c.name, "first generation") {
				source = strings.Replace(source, `"generation":2`, `"generation":1`, 1)
				c.sites[0].Generation = 1
			} else {
				got, _ := Merge(c.resource, []byte(source), c.sites)
				equal(t, "Merge", c.want, got)
			}
			if c.alone != "" {
				alone := Alone(c.resource, []byte(source), c.sites[0])
				equal(t, "Alone", c.alone, alone)
				if again := c.sites[0]; !c.sites[0].Sound { // its own status is marked while it is not there
					again.Status = alone
					equal(t, "Alone of what Alone returned", string(alone), Alone(c.resource, []byte(source), again))
				}
			}
		})
	}
}

func equal(t *testing.T, what, want string, got json.RawMessage) {
	t.Helper()
	canonical := func(text []byte) string {
		var v any
		if len(text) == 0 {
			return ""
		}
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s: %v: %s", what, err, text)
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	if w, g := canonical([]byte(want)), canonical(got); w != g {
		t.Errorf("%s:\n%s\nwant\n%s", what, g, w)
	}
}
