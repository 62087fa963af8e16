package rollup

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
)

// Alone is the status of the source for what its one location reports, as it is there. If that may
// not be about what the source is now, a condition Reconciling says so, observedGeneration is held
// back, and good conditions are Unknown whose readers would not notice that. The end of a Job or Pod counts
// only for the version that has ended. Alone returns nothing if the location has no status.
func Alone(r key.Resource, source []byte, p Part) json.RawMessage {
	if len(p.Status) == 0 || !unobserved(p) || !takesConditions(p) {
		return p.Status
	}
	m := newMerge(source, custom, []Part{p})
	out := make(map[string]any, len(m.parts[0].names)+1)
	for _, field := range m.parts[0].names {
		out[field] = json.RawMessage(m.parts[0].status[field].Raw)
	}
	former := p.Behind || !p.Sound
	if former {
		withoutEnd(r, m.parts[0], out)
	}
	if observed := m.parts[0].status[observedField]; observed.Type == gjson.Number {
		out[observedField] = max(0, min(observed.Int(), m.generation()-1))
	}
	var all []map[string]any
	for _, c := range m.parts[0].conditions {
		isEnd := r == jobs && slices.Contains(jobEnds, c.of)
		if isEnd && former {
			continue
		}
		one := map[string]any{}
		c.ForEach(func(name, v gjson.Result) bool {
			one[name.Str] = json.RawMessage(v.Raw)
			return true
		})
		reported := said{m.parts[0], c.Result}
		switch g := c.Get(observedField); {
		case g.Type == gjson.Number:
			one[observedField] = max(0, min(g.Int(), m.generation()-1))
		case !isEnd && (conditions{}).rule(c.of).rank(reported) >= rankUnknown && !m.tellsObserved(reported):
			one = m.made(c.of, isUnknown, ReasonNotEverywhere, whys(m.parts[:1], "")[0], nil)
		}
		all = append(all, one)
	}
	out[conditionsField] = m.withPending(all, nil)
	status, err := json.Marshal(out)
	if err != nil { // a value of a status that is not JSON, which no report has
		return nil
	}
	return status
}

// withoutEnd removes from a status what tools take for the end of a Job or Pod.
func withoutEnd(r key.Resource, p part, out map[string]any) {
	switch {
	case r == jobs:
		delete(out, "succeeded")
		delete(out, "completionTime")
	case r == pods && p.hasSucceeded():
		out["phase"] = podPhasePending
	}
}
