package rollup

import "orrery.dev/orrery/internal/key"

// rule is what becomes of one field of a status.
type rule struct {
	field string
	merge merger
}

// merger makes one value of those that a field has at the locations.
type merger interface {
	// of is the value of a field in the source; nil: it has none.
	of(m *merging, field string) any
	// text is the rule in the table of docs/status.md.
	text() string
}

// rulesOf are the kinds that have a Rollup, and the rules of their fields. Fields that
// are not named are as in custom's last line: kept where all locations say the same.
var rulesOf = map[key.Resource][]rule{
	{Group: "apps", Resource: "deployments"}: {
		{"observedGeneration", observed{}},
		{"replicas", above{base: "updatedReplicas"}},
		{"updatedReplicas", least{by: replicas}},
		{"readyReplicas", least{by: replicas}},
		{"availableReplicas", least{by: replicas}},
		{"unavailableReplicas", worst{by: replicas, unsound: true}},
		{"terminatingReplicas", worst{by: replicas}},
		{"conditions", conditions{also: []string{"lastUpdateTime"}, types: map[string]condition{
			"Available": {},
			"Progressing": {
				worst: []string{"ProgressDeadlineExceeded"}, best: []string{"NewReplicaSetAvailable"},
				absent: "NewReplicaSetAvailable", // without a deadline there is no such condition
			},
			"ReplicaFailure": {negative: true},
		}}},
	},
	{Group: "apps", Resource: "replicasets"}: {
		{"observedGeneration", observed{}},
		{"replicas", above{always: true}},
		{"fullyLabeledReplicas", least{by: replicas}},
		{"readyReplicas", least{by: replicas}},
		{"availableReplicas", least{by: replicas}},
		{"terminatingReplicas", worst{by: replicas}},
		{"conditions", conditions{types: map[string]condition{"ReplicaFailure": {negative: true}}}},
	},
	{Group: "apps", Resource: "statefulsets"}: {
		{"observedGeneration", observed{}},
		{"replicas", above{always: true}},
		{"readyReplicas", least{by: replicas}},
		{"availableReplicas", least{by: replicas, always: true}},
		{"updatedReplicas", least{by: updates, unlessHealthy: true}},
		{"currentReplicas", least{by: replicas, unlessHealthy: true}},
		{"currentRevision", revision{}},
		{"updateRevision", revision{}},
		{"conditions", conditions{}},
	},
	{Group: "apps", Resource: "daemonsets"}: {
		{"observedGeneration", observed{}},
		{"desiredNumberScheduled", sum{always: true}},
		{"currentNumberScheduled", sum{upTo: "desiredNumberScheduled", always: true}},
		{"updatedNumberScheduled", sum{upTo: "desiredNumberScheduled"}},
		{"numberReady", sum{upTo: "desiredNumberScheduled", always: true}},
		{"numberAvailable", sum{upTo: "desiredNumberScheduled"}},
		{"numberUnavailable", sum{}},
		{"numberMisscheduled", sum{always: true}},
		{"conditions", conditions{}},
	},
	{Group: "batch", Resource: "jobs"}: {
		{"succeeded", least{by: completions}},
		{"failed", worst{by: completions}},
		{"active", worst{by: parallelism}},
		{"ready", share{among: "active", by: parallelism}},
		{"terminating", worst{by: parallelism}},
		{"startTime", earliest{}},
		{"completionTime", latest{}},
		{"uncountedTerminatedPods", own{}},
		{"conditions", ends{}},
	},
	{Group: "batch", Resource: "cronjobs"}: {
		{"active", union{most: maxRefs}},
		{"lastScheduleTime", earliest{}},
		{"lastSuccessfulTime", earliest{}},
	},
	{Group: key.CoreGroup, Resource: "pods"}: worstPod,
	{Group: key.CoreGroup, Resource: "services"}: {
		{"loadBalancer", union{list: "ingress", most: maxIngress}},
		{"conditions", conditions{}},
	},
	{Group: "networking.k8s.io", Resource: "ingresses"}: {
		{"loadBalancer", union{list: "ingress", most: maxIngress}},
	},
	{Group: key.CoreGroup, Resource: "persistentvolumeclaims"}: {
		{"phase", phase{missing: "Pending", order: []string{"Lost", "Pending", "Bound"}}},
		{"capacity", smallest{}},
		{"accessModes", common{}},
		{"conditions", conditions{negative: true, also: probed}},
	},
	{Group: "policy", Resource: "poddisruptionbudgets"}: {
		{"observedGeneration", observed{}},
		{"disruptionsAllowed", fewest{}},
		{"currentHealthy", sum{always: true}},
		{"desiredHealthy", sum{always: true}},
		{"expectedPods", sum{always: true}},
		{"disruptedPods", own{}},
		{"conditions", conditions{}},
	},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {
		{"observedGeneration", observed{zero: true}},
		{"currentReplicas", sum{}},
		{"desiredReplicas", sum{always: true}},
		{"lastScaleTime", latest{}},
		{"currentMetrics", highest{}},
		{"conditions", conditions{types: map[string]condition{
			"AbleToScale":    {},
			"ScalingActive":  {best: []string{"ScalingDisabled"}},
			"ScalingLimited": {negative: true, all: true},
		}}},
	},
}

// custom are the rules of all other kinds, for objects whose statuses have conditions.
var custom = []rule{
	{"observedGeneration", observed{custom: true, zero: true}},
	{"conditions", conditions{}},
	{"phase", phase{}},
}
