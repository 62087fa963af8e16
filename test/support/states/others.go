package states

import (
	"fmt"

	"orrery.dev/orrery/internal/protocol/key"
)

func pod(policy string) Kind {
	spec := fmt.Sprintf(`{"restartPolicy":%q,"containers":[{"name":"c","image":"i"}]}`, policy)
	status := func(phase, ready, state string) string {
		return fmt.Sprintf(`{"phase":%q,"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"c","ready":%v,"restartCount":0,"image":"i","imageID":"","state":%s,"lastState":{}}],`,
			phase, ready == "True", state) + conditions(condition("PodScheduled", "True", ""), condition("Ready", ready, "")) + `}`
	}
	waits := func(reason string) string { return fmt.Sprintf(`{"waiting":{"reason":%q,"message":"m"}}`, reason) }
	const runs = `{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`
	ended := func(code int) string { return fmt.Sprintf(`{"terminated":{"exitCode":%d,"reason":"r"}}`, code) }
	return Kind{
		Resource: key.NewResource("", "pods"), APIVersion: "v1", Kind: "Pod",
		Spec:     func(int64, bool) string { return spec },
		LiveSpec: func(int64) string { return spec },
		Statuses: map[string]func(int64) string{
			"ready":     fixed(status("Running", "True", runs)),
			"starting":  fixed(status("Running", "False", runs)),
			"succeeded": fixed(status("Succeeded", "False", ended(0))),
			"failed":    fixed(status("Failed", "False", ended(1))),
			"crashing":  fixed(status("Running", "False", waits("CrashLoopBackOff"))),
			"no image":  fixed(status("Pending", "False", waits("ImagePullBackOff"))),
			"restarted": fixed(`{"phase":"Running","containerStatuses":[{"name":"c","ready":false,"restartCount":3,"image":"i","imageID":"","state":` + runs +
				`,"lastState":` + ended(1) + `}],` + conditions(condition("Ready", "False", "")) + `}`),
			"no node":    fixed(`{"phase":"Pending",` + conditions(condition("PodScheduled", "False", "Unschedulable")) + `}`),
			"unobserved": fixed(""),
		},
	}
}

func service(t string) Kind {
	return Kind{
		Resource: key.NewResource("", "services"), APIVersion: "v1", Kind: "Service", Union: t == "LoadBalancer",
		// A cluster IP in a space was written by a user.
		Spec:     func(int64, bool) string { return fmt.Sprintf(`{"type":%q,"clusterIP":"10.0.0.7","ports":[]}`, t) },
		LiveSpec: func(int64) string { return fmt.Sprintf(`{"type":%q,"clusterIP":"10.0.0.9","ports":[]}`, t) },
		Statuses: map[string]func(int64) string{
			"address":    fixed(`{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP"}]}}`),
			"other":      fixed(`{"loadBalancer":{"ingress":[{"ip":"192.0.2.2","ipMode":"VIP"},{"hostname":"lb.example"}]}}`),
			"no address": fixed(`{"loadBalancer":{}}`),
			"no ports":   fixed(`{"loadBalancer":{},` + conditions(condition("LoadBalancerPortsError", "True", "No")) + `}`),
		},
	}
}

func ingress() Kind {
	return Kind{
		Resource: key.NewResource("networking.k8s.io", "ingresses"), APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Mute: true, Union: true,
		Spec:     func(int64, bool) string { return `{"rules":[]}` },
		LiveSpec: func(int64) string { return `{"rules":[]}` },
		Statuses: map[string]func(int64) string{
			"address":    fixed(`{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`),
			"other":      fixed(`{"loadBalancer":{"ingress":[{"hostname":"lb.example"}]}}`),
			"no address": fixed(`{"loadBalancer":{}}`),
		},
	}
}

func claim() Kind {
	return Kind{
		Resource: key.NewResource("", "persistentvolumeclaims"), APIVersion: "v1", Kind: "PersistentVolumeClaim",
		Spec:     func(int64, bool) string { return `{"accessModes":["ReadWriteOnce"]}` },
		LiveSpec: func(int64) string { return `{"accessModes":["ReadWriteOnce"],"volumeName":"v"}` },
		Statuses: map[string]func(int64) string{
			"bound":    fixed(`{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"10Gi"}}`),
			"larger":   fixed(`{"phase":"Bound","accessModes":["ReadWriteOnce","ReadOnlyMany"],"capacity":{"storage":"20Gi"}}`),
			"resizing": fixed(`{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"10Gi"},` + conditions(condition("Resizing", "True", "")) + `}`),
			"pending":  fixed(`{"phase":"Pending"}`),
			"lost":     fixed(`{"phase":"Lost"}`),
			"empty":    fixed(""),
		},
	}
}

func budget() Kind {
	status := func(generation string, allowed, healthy int64, is string) string {
		return fmt.Sprintf(`{%s,"disruptionsAllowed":%d,"currentHealthy":%d,"desiredHealthy":2,"expectedPods":3,%s}`,
			generation, allowed, healthy, conditions(condition("DisruptionAllowed", is, "SufficientPods")))
	}
	return Kind{
		Resource: key.NewResource("policy", "poddisruptionbudgets"), APIVersion: "policy/v1", Kind: "PodDisruptionBudget",
		Spec:     func(int64, bool) string { return `{"minAvailable":2}` },
		LiveSpec: func(int64) string { return `{"minAvailable":2}` },
		Statuses: map[string]func(int64) string{
			"allowed":      fixed(status(observed, 1, 3, "True")),
			"not allowed":  fixed(status(observed, 0, 2, "False")),
			"not observed": fixed(status(before, 1, 3, "True")),
		},
	}
}

func autoscaler() Kind {
	status := func(use int64, all ...string) string {
		return fmt.Sprintf(`{%s,"currentReplicas":2,"desiredReplicas":3,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":%d,"averageValue":"10m"}}}],%s}`,
			observed, use, conditions(all...))
	}
	return Kind{
		Resource: key.NewResource("autoscaling", "horizontalpodautoscalers"), APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler",
		Spec: func(int64, bool) string {
			return `{"maxReplicas":4,"scaleTargetRef":{"kind":"Deployment","name":"web"}}`
		},
		LiveSpec: func(int64) string { return `{"maxReplicas":4,"scaleTargetRef":{"kind":"Deployment","name":"web"}}` },
		Statuses: map[string]func(int64) string{
			"scales": fixed(status(60, condition("AbleToScale", "True", "ReadyForNewScale"), condition("ScalingActive", "True", "ValidMetricFound"), condition("ScalingLimited", "False", "DesiredWithinRange"))),
			"at its most": fixed(status(90, condition("AbleToScale", "True", "ReadyForNewScale"), condition("ScalingActive", "True", "ValidMetricFound"),
				condition("ScalingLimited", "True", "TooManyReplicas"))),
			"no metric": fixed(status(0, condition("AbleToScale", "True", "SucceededGetScale"), condition("ScalingActive", "False", "FailedGetResourceMetric"))),
			"disabled":  fixed(status(0, condition("AbleToScale", "True", "SucceededGetScale"), condition("ScalingActive", "False", "ScalingDisabled"))),
			"no target": fixed(status(0, condition("AbleToScale", "False", "FailedGetScale"))),
			"new":       fixed(`{"desiredReplicas":0,"currentMetrics":null}`),
		},
	}
}

func custom() Kind {
	status := func(generation string, all ...string) string {
		return `{` + generation + `,` + conditions(all...) + `}`
	}
	return Kind{
		Resource: key.NewResource("shop.example", "campaigns"), APIVersion: "shop.example/v1", Kind: "Campaign",
		Spec:     func(int64, bool) string { return `{"discount":10}` },
		LiveSpec: func(int64) string { return `{"discount":10}` },
		Statuses: map[string]func(int64) string{
			"ready":          fixed(status(observed, condition("Ready", "True", "Fine"), condition("Stalled", "False", "Fine"))),
			"ready of phase": fixed(status(observed+`,"phase":"Up","url":"https://a.example"`, condition("Ready", "True", "Fine"))),
			"not ready":      fixed(status(observed+`,"phase":"Starting"`, condition("Ready", "False", "Waits"))),
			"unknown":        fixed(status(observed, condition("Ready", "Unknown", "Waits"))),
			"not observed":   fixed(status(before, condition("Ready", "True", "Fine"))),
			"reconciling":    fixed(status(observed, condition("Ready", "True", "Fine"), condition("Reconciling", "True", "Works"))),
			"stalled":        fixed(status(observed, condition("Ready", "False", "No"), condition("Stalled", "True", "Never"))),
		},
	}
}
