package health

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"orrery.dev/orrery/internal/protocol/wire"
)

// stricter returns the health of an object that is Current by the rules of kstatus although it waits or has failed, and
// the reason. It returns Healthy for all others.
func stricter(apiVersion, kind string, object map[string]any) (is wire.Health, detail string) {
	switch {
	case apiVersion == "batch/v1" && kind == "Job":
		return ofJob(object)
	case apiVersion == "apps/v1" && kind == "StatefulSet":
		return ofStatefulSet(object)
	case apiVersion == "v1" && kind == "Pod":
		return ofPod(object)
	}
	return wire.Healthy, ""
}

// ofJob: a Job is Current by kstatus once it has started, even if its Pods cannot run. A Job with a parallelism of 0
// waits for nothing.
func ofJob(job map[string]any) (is wire.Health, detail string) {
	if isComplete(job) {
		return wire.Healthy, ""
	}
	active, ready := status.GetIntField(job, ".status.active", 0), status.GetIntField(job, ".status.ready", 0)
	switch {
	case ready < active:
		return wire.Progressing, fmt.Sprintf("%d of %d active Pods are ready", ready, active)
	case active == 0 && status.GetIntField(job, ".spec.parallelism", 1) != 0:
		return wire.Progressing, "no Pod is active"
	}
	return wire.Healthy, ""
}

func isComplete(job map[string]any) bool {
	o, err := status.GetObjectWithConditions(job)
	if err != nil {
		return false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "Complete" && c.Status == "True" {
			return true
		}
	}
	return false
}

// ofStatefulSet: a StatefulSet with the update strategy OnDelete is always Current by kstatus.
func ofStatefulSet(set map[string]any) (is wire.Health, detail string) {
	wanted, ready := status.GetIntField(set, ".spec.replicas", 1), status.GetIntField(set, ".status.readyReplicas", 0)
	if ready < wanted {
		return wire.Progressing, fmt.Sprintf("Ready: %d/%d", ready, wanted)
	}
	return wire.Healthy, ""
}

// ofPod: a Pod that has failed is Current by kstatus, because it has ended.
func ofPod(pod map[string]any) (is wire.Health, detail string) {
	if status.GetStringField(pod, ".status.phase", "") != "Failed" {
		return wire.Healthy, ""
	}
	detail = "the Pod has failed"
	var reasons []string
	for _, field := range []string{".status.reason", ".status.message"} {
		if text := status.GetStringField(pod, field, ""); text != "" {
			reasons = append(reasons, text)
		}
	}
	if len(reasons) > 0 {
		detail = "Failed: " + strings.Join(reasons, ": ")
	}
	return wire.Degraded, wire.Brief(detail)
}
