package rollup

import "orrery.dev/orrery/internal/protocol/key"

// rule is the rule for one field of a status.
type rule struct {
	field string
	merge merger
}

// merger merges the values of a field at the locations.
type merger interface {
	// value returns the value of a field for the source; nil: it has none.
	value(m *merging, field string) any
	// text describes the rule for the table in docs/status.md.
	text() string
}

// kind is a kind with a Rollup, and the rules for the fields of its status. A field without a rule
// is kept if all locations have the same value.
type kind struct {
	resource key.Resource
	rules    []rule
}

// kinds are the kinds with a Rollup, see also custom.
var kinds = []kind{
	{key.Resource{Group: "apps", Resource: "deployments"}, []rule{
		{"observedGeneration", observed{}},
		{"replicas", above{base: "updatedReplicas", present: true}},
		{"updatedReplicas", least{unit: replicas, present: true}},
		{"readyReplicas", least{unit: replicas}},
		{"availableReplicas", least{unit: replicas}},
		{"unavailableReplicas", worst{unit: replicas, unsound: true}},
		{"terminatingReplicas", worst{unit: replicas}},
		{"conditions", conditions{also: []string{"lastUpdateTime"}, types: map[string]condition{
			"Available": {},
			"Progressing": {
				worst: []string{"ProgressDeadlineExceeded"}, best: []string{"NewReplicaSetAvailable"},
				absent: "NewReplicaSetAvailable", // without a deadline there is no such condition
			},
			"ReplicaFailure": {negative: true},
		}}},
	}},
	{key.Resource{Group: "apps", Resource: "replicasets"}, []rule{
		{"observedGeneration", observed{unless: "ReplicaFailure"}},
		{"replicas", above{always: true}},
		{"fullyLabeledReplicas", least{unit: replicas}},
		{"readyReplicas", least{unit: replicas}},
		{"availableReplicas", least{unit: replicas}},
		{"terminatingReplicas", worst{unit: replicas}},
		{"conditions", conditions{types: map[string]condition{"ReplicaFailure": {negative: true}}}},
	}},
	{key.Resource{Group: "apps", Resource: "statefulsets"}, []rule{
		{"observedGeneration", observed{}},
		{"replicas", above{always: true}},
		{"readyReplicas", least{unit: replicas}},
		{"availableReplicas", least{unit: replicas, always: true, aside: true}},
		{"updatedReplicas", least{unit: updates, unlessHealthy: true, present: true, within: "replicas"}},
		{"currentReplicas", least{unit: replicas, unlessHealthy: true, within: "replicas"}},
		{"currentRevision", revision{}},
		{"updateRevision", revision{}},
		{"conditions", conditions{}},
	}},
	{key.Resource{Group: "apps", Resource: "daemonsets"}, []rule{
		{"observedGeneration", observed{}},
		{"desiredNumberScheduled", sum{always: true}},
		{"currentNumberScheduled", sum{upTo: "desiredNumberScheduled", always: true}},
		{"updatedNumberScheduled", sum{upTo: "desiredNumberScheduled", present: true}},
		{"numberReady", sum{upTo: "desiredNumberScheduled", always: true}},
		{"numberAvailable", sum{upTo: "desiredNumberScheduled"}},
		{"numberUnavailable", sum{}},
		{"numberMisscheduled", sum{always: true}},
		{"conditions", conditions{}},
	}},
	{jobs, []rule{
		{"succeeded", least{unit: completions, present: true}},
		{"failed", worst{unit: completions}},
		{"active", worst{unit: parallelism}},
		{"ready", share{base: "active", unit: parallelism}},
		{"terminating", worst{unit: parallelism}},
		{"startTime", earliest{}},
		{"completionTime", latest{present: true}},
		{"uncountedTerminatedPods", own{}},
		{"conditions", ends{}},
	}},
	{key.Resource{Group: "batch", Resource: "cronjobs"}, []rule{
		{"active", union{most: maxRefs}},
		{"lastScheduleTime", earliest{}},
		{"lastSuccessfulTime", earliest{}},
	}},
	{pods, worstPod},
	{key.Resource{Group: key.CoreGroup, Resource: "services"}, []rule{
		{"loadBalancer", union{list: "ingress", most: maxIngress}},
		{"conditions", conditions{}},
	}},
	{key.Resource{Group: "networking.k8s.io", Resource: "ingresses"}, []rule{
		{"loadBalancer", union{list: "ingress", most: maxIngress}},
	}},
	{key.Resource{Group: key.CoreGroup, Resource: "persistentvolumeclaims"}, []rule{
		{"phase", phase{missing: "Pending", order: []string{"Lost", "Pending", "Bound"}}},
		{"capacity", smallest{}},
		{"accessModes", common{}},
		{"conditions", conditions{negative: true, also: probed}},
	}},
	{key.Resource{Group: "policy", Resource: "poddisruptionbudgets"}, []rule{
		{"observedGeneration", observed{}},
		{"disruptionsAllowed", fewest{}},
		{"currentHealthy", sum{always: true}},
		{"desiredHealthy", sum{always: true}},
		{"expectedPods", sum{always: true}},
		{"disruptedPods", own{}},
		{"conditions", conditions{}},
	}},
	{key.Resource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, []rule{
		{"observedGeneration", observed{custom: true, zero: true}},
		{"currentReplicas", sum{}},
		{"desiredReplicas", sum{always: true}},
		{"lastScaleTime", latest{}},
		{"currentMetrics", highest{}},
		{"conditions", conditions{types: map[string]condition{
			"AbleToScale":    {},
			"ScalingActive":  {best: []string{"ScalingDisabled"}},
			"ScalingLimited": {negative: true, all: true},
		}}},
	}},
}

// rulesOf returns the rules of a resource, or false if it has none of its own.
func rulesOf(r key.Resource) ([]rule, bool) {
	for _, k := range kinds {
		if k.resource == r {
			return k.rules, true
		}
	}
	return nil, false
}

// custom are the rules of all other kinds, for objects whose statuses have conditions.
var custom = []rule{
	{"observedGeneration", observed{custom: true, zero: true}},
	{"conditions", conditions{}},
	{"phase", phase{}},
}
