package rollup

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
)

// Alone returns the status of the source for the report of its single location, with all fields as
// reported. If the report may not describe the present source, a condition Reconciling is added,
// observedGeneration is held back, and good conditions become Unknown if their readers could not
// notice that otherwise. The end of a Job or Pod counts only for its own version. Alone returns
// nothing if the location has no status.
func Alone(r key.Resource, source []byte, p Report) json.RawMessage {
	if len(p.Status) == 0 || !unobserved(p) && !p.IsDiagnosed || !takesConditions(p) {
		return p.Status
	}
	m := newMerge(source, custom, []Report{p})
	if !unobserved(p) {
		return withDiagnosis(m)
	}
	out := make(map[string]any, len(m.inputs[0].names)+1)
	for _, field := range m.inputs[0].names {
		out[field] = json.RawMessage(m.inputs[0].status[field].Raw)
	}
	former := p.Behind || !p.Sound
	if former {
		withoutEnd(r, m.inputs[0], out)
	}
	if observed := m.inputs[0].status[observedField]; observed.Type == gjson.Number {
		out[observedField] = max(0, min(observed.Int(), m.generation()-1))
	}
	var all []map[string]any
	for _, c := range m.inputs[0].conditions {
		isEnd := r == jobs && slices.Contains(jobEnds, c.conditionType)
		if isEnd && former {
			continue
		}
		one := unchanged(c.Result)
		reported := reportedCondition{m.inputs[0], c.Result}
		switch g := c.Get(observedField); {
		case g.Type == gjson.Number:
			one[observedField] = max(0, min(g.Int(), m.generation()-1))
		case !isEnd && (conditions{}).rule(c.conditionType).rank(reported) >= rankUnknown && !m.tellsObserved(reported):
			one = m.made(c.conditionType, isUnknown, ReasonNotEverywhere, whys(m.inputs[:1], "")[0], nil)
		}
		all = append(all, one)
	}
	out[conditionsField] = m.withPending(all, nil)
	status, err := json.Marshal(out)
	if err != nil { // cannot happen: reports contain only JSON
		return nil
	}
	return status
}

// withDiagnosis returns the status of the one location with a condition that has its diagnosis.
func withDiagnosis(m *merging) json.RawMessage {
	only := m.inputs[0]
	out := make(map[string]any, len(only.names)+1)
	for _, field := range only.names {
		out[field] = json.RawMessage(only.status[field].Raw)
	}
	if conditions := m.theOnly(conditionsField, nil); conditions != nil {
		out[conditionsField] = conditions
	}
	status, err := json.Marshal(out)
	if err != nil { // cannot happen: reports contain only JSON
		return only.Status
	}
	return status
}

// withoutEnd removes the fields that tools read as the end of a Job or Pod.
func withoutEnd(r key.Resource, p input, out map[string]any) {
	switch {
	case r == jobs:
		delete(out, "succeeded")
		delete(out, "completionTime")
	case r == pods && p.hasSucceeded():
		out["phase"] = podPhasePending
	}
}
