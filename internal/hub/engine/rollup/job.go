package rollup

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

var jobs = key.Resource{Group: "batch", Resource: "jobs"}

// Types of the conditions of a Job.
const (
	jobComplete        = "Complete"
	jobSuccess         = "SuccessCriteriaMet"
	jobFailed          = "Failed"
	jobFailureExpected = "FailureTarget"
	jobSuspended       = "Suspended"
)

// jobEnds are the conditions of a Job that has ended. A cluster never reverts them, so they also
// count for stale locations.
var jobEnds = []string{jobSuccess, jobComplete}

// ends merges the conditions of a Job about its end: it is Complete if it is so at all locations,
// and Failed if it is at any.
type ends struct{}

func (ends) text() string {
	return "`Complete` if all are complete, `Failed` if any failed; `Suspended` if all unfinished ones are suspended"
}

func (ends) value(m *merging, field string) any {
	if m.asItIs() {
		return m.theOnly(field, probed)
	}
	var merged []map[string]any
	add := func(rule condition, where []reportedCondition) {
		merged = append(merged, rule.merged(m, where, where[0], probed))
	}
	for _, t := range []string{jobFailureExpected, jobFailed} {
		if where := m.are(t); len(where) > 0 {
			add(condition{negative: true}, where)
		}
	}
	for _, t := range jobEnds {
		if where := m.are(t); len(where) == len(m.inputs) && !slices.ContainsFunc(where, func(s reportedCondition) bool { return s.Behind }) {
			add(condition{}, where)
		}
	}
	suspended, complete := m.are(jobSuspended), m.are(jobComplete)
	if len(suspended) > 0 && len(suspended)+len(complete) == len(m.inputs) {
		add(condition{negative: true}, suspended)
	}
	merged = m.withPending(merged, probed)
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// probed is the additional field of conditions of Jobs, Pods and claims.
var probed = []string{"lastProbeTime"}

// are returns the conditions of a type that are True.
func (m *merging) are(t string) (all []reportedCondition) {
	for _, p := range m.inputs {
		if c := conditionOf(p, t); p.Sound && c.Exists() && c.status() == isTrue {
			all = append(all, c)
		}
	}
	return all
}
