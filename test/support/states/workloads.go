package states

import (
	"fmt"

	"orrery.dev/orrery/internal/protocol/key"
)

// Kinds are all kinds, custom resources included.
func Kinds() []Kind {
	return []Kind{
		deployment(), replicaSet(), statefulSet(), partitioned(), daemonSet(), job(), cronJob(), pod("Always"), pod("Never"),
		service("ClusterIP"), service("LoadBalancer"), ingress(), claim(), budget(), autoscaler(), custom(),
	}
}

const (
	observed = `"observedGeneration":9`
	before   = `"observedGeneration":8`
	template = `"selector":{"matchLabels":{"a":"b"}},"template":{}`
)

func braces(number string, rest string) string {
	if number != "" {
		number += ","
	}
	return "{" + number + rest + "}"
}

func deployment() Kind {
	status := func(generation string, all, updated, ready, available int64, conditions string) string {
		return fmt.Sprintf(`{%s,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%d,"availableReplicas":%d,"unavailableReplicas":%d,%s}`,
			generation, all, updated, ready, available, max(all-available, 0), conditions)
	}
	done := conditions(condition("Available", "True", "MinimumReplicasAvailable"), condition("Progressing", "True", "NewReplicaSetAvailable"))
	under := conditions(condition("Available", "True", "MinimumReplicasAvailable"), condition("Progressing", "True", "ReplicaSetUpdated"))
	down := conditions(condition("Available", "False", "MinimumReplicasUnavailable"), condition("Progressing", "True", "ReplicaSetUpdated"))
	late := conditions(condition("Available", "False", "MinimumReplicasUnavailable"), condition("Progressing", "False", "ProgressDeadlineExceeded"))
	quota := conditions(condition("Available", "False", "MinimumReplicasUnavailable"), condition("Progressing", "True", "NewReplicaSetCreated"), condition("ReplicaFailure", "True", "FailedCreate"))
	return Kind{
		Resource: key.NewResource("apps", "deployments"), APIVersion: "apps/v1", Kind: "Deployment", Counts: true,
		Spec: func(n int64, explicit bool) string { return braces(number("replicas", n, explicit), template) },
		LiveSpec: func(n int64) string {
			return fmt.Sprintf(`{"replicas":%d,"progressDeadlineSeconds":600,"strategy":{"type":"RollingUpdate"},%s}`, n, template)
		},
		Statuses: map[string]func(int64) string{
			"done":         func(n int64) string { return status(observed, n, n, n, n, done) },
			"not observed": func(n int64) string { return status(before, n, n, n, n, done) },
			"new":          func(n int64) string { return status(observed, 0, 0, 0, 0, down) },
			"starting":     func(n int64) string { return status(observed, n, n, 0, 0, down) },
			"one missing":  func(n int64) string { return status(observed, n, n, max(n-1, 0), max(n-1, 0), under) },
			"surge":        func(n int64) string { return status(observed, n+1, min(n, 1), n, n, under) },
			"old ones":     func(n int64) string { return status(observed, n+1, n, n, n, under) },
			"scaling down": func(n int64) string { return status(observed, n+2, n+2, n+2, n+2, done) },
			"deadline":     func(n int64) string { return status(observed, n+1, 1, n, n, late) },
			"quota":        func(n int64) string { return status(observed, 0, 0, 0, 0, quota) },
			"empty":        fixed(""),
		},
	}
}

func replicaSet() Kind {
	status := func(generation string, all, ready, available int64, conditions string) string {
		return fmt.Sprintf(`{%s,"replicas":%d,"fullyLabeledReplicas":%d,"readyReplicas":%d,"availableReplicas":%d%s}`, generation, all, all, ready, available, conditions)
	}
	return Kind{
		Resource: key.NewResource("apps", "replicasets"), APIVersion: "apps/v1", Kind: "ReplicaSet", Counts: true,
		Spec:     func(n int64, explicit bool) string { return braces(number("replicas", n, explicit), template) },
		LiveSpec: func(n int64) string { return fmt.Sprintf(`{"replicas":%d,%s}`, n, template) },
		Statuses: map[string]func(int64) string{
			"done":         func(n int64) string { return status(observed, n, n, n, "") },
			"not observed": func(n int64) string { return status(before, n, n, n, "") },
			"new":          func(n int64) string { return status(observed, 0, 0, 0, "") },
			"starting":     func(n int64) string { return status(observed, n, 0, 0, "") },
			"too many":     func(n int64) string { return status(observed, n+1, n+1, n+1, "") },
			"quota": func(n int64) string {
				if n == 0 {
					return status(observed, 0, 0, 0, "") // there is nothing to make that could be refused
				}
				return status(observed, 0, 0, 0, ","+conditions(condition("ReplicaFailure", "True", "FailedCreate")))
			},
			"empty": fixed(""),
		},
	}
}

func setStatus(generation string, all, ready, current, updated int64, to string) string {
	return fmt.Sprintf(`{%s,"replicas":%d,"readyReplicas":%d,"availableReplicas":%d,"currentReplicas":%d,"updatedReplicas":%d,"currentRevision":%q,"updateRevision":%q}`,
		generation, all, ready, ready, current, updated, "a", to)
}

func statefulSet() Kind {
	return Kind{
		Resource: key.NewResource("apps", "statefulsets"), APIVersion: "apps/v1", Kind: "StatefulSet", Counts: true,
		Spec: func(n int64, explicit bool) string {
			if !explicit {
				return braces(number("replicas", n, explicit), template)
			}
			return braces(number("replicas", n, explicit), `"updateStrategy":{"type":"RollingUpdate"},`+template)
		},
		LiveSpec: func(n int64) string {
			return fmt.Sprintf(`{"replicas":%d,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},%s}`, n, template)
		},
		Statuses: map[string]func(int64) string{
			"done":         func(n int64) string { return setStatus(observed, n, n, n, n, "a") },
			"not observed": func(n int64) string { return setStatus(before, n, n, n, n, "a") },
			"new":          func(n int64) string { return setStatus(observed, 0, 0, 0, 0, "a") },
			"one missing":  func(n int64) string { return setStatus(observed, n, max(n-1, 0), n, n, "a") },
			"updating":     func(n int64) string { return setStatus(observed, n, n, max(n-1, 0), min(n, 1), "b") },
			"all but the revision": func(n int64) string {
				return setStatus(observed, n, max(n-1, 0), 0, n, "b")
			},
			"scaling down": func(n int64) string { return setStatus(observed, n+1, n+1, n+1, n+1, "a") },
			"empty":        fixed(""),
		},
	}
}

// partitioned is a StatefulSet of which one replica is not updated.
func partitioned() Kind {
	k := statefulSet()
	k.Spec = func(n int64, explicit bool) string {
		return braces(number("replicas", n, explicit), `"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}},`+template)
	}
	k.LiveSpec = func(n int64) string {
		return fmt.Sprintf(`{"replicas":%d,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}},%s}`, n, template)
	}
	k.Statuses["updated above"] = func(n int64) string { return setStatus(observed, n, n, min(n, 1), max(n-1, 0), "b") }
	return k
}

func daemonSet() Kind {
	status := func(generation string, desired, current, updated, ready, available int64) string {
		return fmt.Sprintf(`{%s,"desiredNumberScheduled":%d,"currentNumberScheduled":%d,"updatedNumberScheduled":%d,"numberReady":%d,"numberAvailable":%d,"numberUnavailable":%d,"numberMisscheduled":0}`,
			generation, desired, current, updated, ready, available, desired-available)
	}
	return Kind{
		Resource: key.NewResource("apps", "daemonsets"), APIVersion: "apps/v1", Kind: "DaemonSet",
		Spec:     func(int64, bool) string { return `{"updateStrategy":{"type":"RollingUpdate"},` + template + `}` },
		LiveSpec: func(int64) string { return `{"updateStrategy":{"type":"RollingUpdate"},` + template + `}` },
		Statuses: map[string]func(int64) string{
			"done":         fixed(status(observed, 4, 4, 4, 4, 4)),
			"no node":      fixed(status(observed, 0, 0, 0, 0, 0)),
			"not observed": fixed(status(before, 4, 4, 4, 4, 4)),
			"updating":     fixed(status(observed, 4, 4, 2, 4, 4)),
			"starting":     fixed(status(observed, 4, 3, 3, 0, 0)),
			"unavailable":  fixed(status(observed, 4, 4, 4, 4, 3)),
			"empty":        fixed(""),
		},
	}
}

func job() Kind {
	status := func(active, ready, succeeded, failed int64, rest string) string {
		return fmt.Sprintf(`{"active":%d,"ready":%d,"succeeded":%d,"failed":%d,"terminating":0,"uncountedTerminatedPods":{}%s}`, active, ready, succeeded, failed, rest)
	}
	const started = `,"startTime":"2026-01-01T00:00:00Z"`
	return Kind{
		Resource: key.NewResource("batch", "jobs"), APIVersion: "batch/v1", Kind: "Job", Counts: true,
		Spec: func(n int64, explicit bool) string {
			return braces(number("completions", n, explicit), `"template":{}`)
		},
		LiveSpec: func(n int64) string {
			return fmt.Sprintf(`{"completions":%d,"parallelism":%d,"template":{}}`, n, max(n, 1))
		},
		Statuses: map[string]func(int64) string{
			"complete": func(n int64) string {
				return status(0, 0, n, 0, started+`,"completionTime":"2026-01-01T00:01:00Z",`+
					conditions(condition("SuccessCriteriaMet", "True", "CompletionsReached"), condition("Complete", "True", "CompletionsReached")))
			},
			"running": func(n int64) string { return status(n, n, 0, 0, started) },
			"half":    func(n int64) string { return status(n-n/2, 0, n/2, 1, started) },
			"failed": func(n int64) string {
				return status(0, 0, 0, 7, started+","+
					conditions(condition("FailureTarget", "True", "BackoffLimitExceeded"), condition("Failed", "True", "BackoffLimitExceeded")))
			},
			"suspended": func(int64) string { return `{` + conditions(condition("Suspended", "True", "JobSuspended")) + `}` },
			"empty":     fixed(""),
		},
	}
}

func cronJob() Kind {
	return Kind{
		Resource: key.NewResource("batch", "cronjobs"), APIVersion: "batch/v1", Kind: "CronJob", Mute: true,
		Spec:     func(int64, bool) string { return `{"schedule":"* * * * *","jobTemplate":{}}` },
		LiveSpec: func(int64) string { return `{"schedule":"* * * * *","jobTemplate":{}}` },
		Statuses: map[string]func(int64) string{
			"idle": fixed(`{"lastScheduleTime":"2026-01-01T00:05:00Z","lastSuccessfulTime":"2026-01-01T00:05:10Z"}`),
			"active": fixed(`{"active":[{"kind":"Job","namespace":"shop","name":"web-1","uid":"1","apiVersion":"batch/v1"}],` +
				`"lastScheduleTime":"2026-01-01T00:06:00Z"}`),
			"never": fixed(""),
		},
	}
}
