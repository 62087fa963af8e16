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

// jobEnds are the conditions of a Job that has reached its end. A cluster never takes them back, so they
// count also while the location can't be seen.
var jobEnds = []string{jobSuccess, jobComplete}

// ends are the conditions of a Job, which are about its end: it is Complete if it is so
// everywhere, and Failed if it is anywhere.
type ends struct{}

func (ends) text() string {
	return "`Complete` if all are, `Failed` if any is; `Suspended` if all that have not ended are"
}

func (ends) of(m *merging, field string) any {
	if m.asItIs() {
		return list(m.parts[0].status[field])
	}
	var merged []map[string]any
	add := func(rule condition, where []said) {
		merged = append(merged, rule.merged(m, where, where[0], probed))
	}
	for _, t := range []string{jobFailureExpected, jobFailed} {
		if where := m.are(t); len(where) > 0 {
			add(condition{negative: true}, where)
		}
	}
	for _, t := range jobEnds {
		if where := m.are(t); len(where) == len(m.parts) && !slices.ContainsFunc(where, func(s said) bool { return s.Behind }) {
			add(condition{}, where)
		}
	}
	suspended, complete := m.are(jobSuspended), m.are(jobComplete)
	if len(suspended) > 0 && len(suspended)+len(complete) == len(m.parts) {
		add(condition{negative: true}, suspended)
	}
	merged = m.withPending(merged, probed)
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// probed is what conditions of Jobs, Pods and claims have besides.
var probed = []string{"lastProbeTime"}

// are the conditions of a type that are True.
func (m *merging) are(t string) (all []said) {
	for _, p := range m.parts {
		if c := conditionOf(p, t); p.Sound && c.Exists() && c.status() == isTrue {
			all = append(all, c)
		}
	}
	return all
}
