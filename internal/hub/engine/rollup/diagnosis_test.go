package rollup

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestDiagnosis: a merged status has the reason why an object is not healthy, with its location, also with one
// location, and says nothing of a reason that a location does not have.
func TestDiagnosis(t *testing.T) {
	t.Parallel()
	const (
		source = `{"metadata":{"generation":2,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":1}}`
		status = `{"observedGeneration":2,"replicas":1,"conditions":[{"type":"Available","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-01-02T00:00:00Z"}]}`
		reason = `Available: 0/1; Pod web-1: ImagePullBackOff`
	)
	unhealthy := func(l key.Location, health wire.Health, isDiagnosed bool) Report {
		return Report{Location: l, Sound: true, Generation: 2, Status: json.RawMessage(status), Health: health, HealthNote: reason, IsDiagnosed: isDiagnosed}
	}
	healthy := Report{Location: "z", Sound: true, Generation: 2, Status: json.RawMessage(status), Health: wire.Healthy}
	unsound := func(l key.Location) Report {
		return Report{Location: l, Why: "Invalid: spec.ports[0].port: must be between 1 and 65535"}
	}
	for name, c := range map[string]struct {
		inputs      []Report
		reconciling string
		stalled     string
	}{
		"healthy":       {[]Report{healthy}, "", ""},
		"no diagnosis":  {[]Report{unhealthy("a", wire.Progressing, false)}, "", ""},
		"one location":  {[]Report{unhealthy("a", wire.Progressing, true)}, "a: " + reason, ""},
		"one, degraded": {[]Report{unhealthy("a", wire.Degraded, true)}, "", "a: " + reason},
		"one of two":    {[]Report{healthy, unhealthy("a", wire.Progressing, true)}, "a: " + reason, ""},
		"some of many":  {[]Report{unhealthy("a", wire.Progressing, true), unhealthy("b", wire.Progressing, false), unhealthy("c", wire.Degraded, true)}, "a: " + reason + "; b: progressing", "c: " + reason},
		"more than are named": {
			[]Report{unhealthy("a", wire.Progressing, true), unhealthy("b", wire.Progressing, true), unhealthy("c", wire.Progressing, true), unhealthy("d", wire.Progressing, true)},
			"a: " + reason + "; b: " + reason + "; c: " + reason + "; d: progressing", "",
		},
		"refused":                  {[]Report{unsound("a"), healthy}, "a: Invalid: spec.ports[0].port: must be between 1 and 65535", ""},
		"refused, and a diagnosis": {[]Report{unsound("a"), unhealthy("b", wire.Progressing, true)}, "a: Invalid: spec.ports[0].port: must be between 1 and 65535; b: " + reason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			merged, ok := Merge(key.NewResource("apps", "deployments"), []byte(source), c.inputs)
			if !ok {
				t.Fatal("there is no Rollup")
			}
			check := func(status json.RawMessage) {
				t.Helper()
				for conditionType, want := range map[string]string{"Reconciling": c.reconciling, "Stalled": c.stalled} {
					condition := gjson.GetBytes(status, `conditions.#(type="`+conditionType+`")`)
					if got := condition.Get("message").Str; got != want || want != "" && condition.Get("status").Str != "True" {
						t.Errorf("%s: %q, want %q\n%s", conditionType, got, want, status)
					}
				}
			}
			check(merged)
			if len(c.inputs) > 1 || !c.inputs[0].Sound {
				return
			}
			check(Alone(key.NewResource("example.org", "gizmos"), []byte(source), c.inputs[0]))
			available := gjson.GetBytes(merged, `conditions.#(type="Available")`)
			if available.Get("message").Str != "m" || available.Get("lastTransitionTime").Str != "2026-01-02T00:00:00Z" { // as it is there
				t.Errorf("the condition Available is %s", available)
			}
		})
	}
}
