package rollup

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

var pods = key.Resource{Group: key.CoreGroup, Resource: "pods"}

const podPhasePending = "Pending"

// hasSucceeded reports whether a Pod has run to its end.
func (p input) hasSucceeded() bool { return p.status["phase"].Str == "Succeeded" }

// worstPod are the rules for a Pod: all fields are from one location, the worst, because the fields
// about its end and its containers must be consistent.
var worstPod = []rule{
	{"observedGeneration", observed{custom: true}},
	{"phase", ofWorst{}},
	{"reason", ofWorst{}},
	{"message", ofWorst{named: true}},
	{"initContainerStatuses", ofWorst{}},
	{"containerStatuses", ofWorst{}},
	{"ephemeralContainerStatuses", ofWorst{}},
	{"startTime", ofWorst{}},
	{"conditions", podConditions{}},
}

// ofWorst is a field of the worst Pod. named adds the location before the text.
type ofWorst struct{ named bool }

func (ofWorst) text() string { return "as at the location with the worst Pod" }

func (r ofWorst) value(m *merging, field string) any {
	worst, missing := m.worstPod()
	v := worst.status[field]
	switch {
	case missing && field == "phase":
		return podPhasePending
	case missing, v.Type != gjson.String && !v.IsArray():
		return nil
	case r.named && v.Str != "" && !m.alone():
		return wire.Clip(fmt.Sprintf("%s: %s", worst.Location, v.Str), maxMessage)
	}
	return json.RawMessage(v.Raw)
}

// podConditions are the conditions of the worst Pod.
type podConditions struct{}

func (podConditions) text() string {
	return "as at the location with the worst Pod; the messages name it"
}

func (podConditions) value(m *merging, field string) any {
	if m.asItIs() {
		return m.theOnly(field, probed)
	}
	worst, missing := m.worstPod()
	var merged []map[string]any
	if !missing {
		for _, c := range worst.conditions {
			one := []reportedCondition{{worst, c.Result}}
			merged = append(merged, condition{}.merged(m, one, one[0], probed))
		}
	}
	if merged = m.withPending(merged, probed); len(merged) == 0 {
		return nil
	}
	return merged
}

// worstPod returns the location with the worst Pod. missing reports whether an unsound location is
// worse, because it has no Pod yet.
func (m *merging) worstPod() (worst input, missing bool) {
	rank := podBest
	for i, p := range m.inputs {
		if !p.Sound || p.Behind && p.hasSucceeded() { // a Pod of the present version must still run
			missing = true
			continue
		}
		if r := podRank(p); worst.Location == "" || r < rank {
			worst, rank = m.inputs[i], r
		}
	}
	return worst, missing && rank >= podPending
}

// Ranks of Pods, the worst first. Final failures come first, so that a hook that has failed at one
// location has failed.
const (
	podFailed = iota
	podCrashing
	podCantStart
	podRestarted
	podUnschedulable
	podUnknown
	podPending
	podStarting
	podReady
	podSucceeded
	podBest
)

func podRank(p input) int {
	ready := false
	unschedulable := false
	for _, c := range p.conditions {
		switch c.conditionType {
		case "Ready":
			ready = c.Get("status").Str == isTrue
		case "PodScheduled":
			unschedulable = c.Get("status").Str == isFalse && c.Get("reason").Str == "Unschedulable"
		}
	}
	crashing, waiting, restarted := containersOf(p)
	switch phase := p.status["phase"].Str; {
	case phase == "Failed":
		return podFailed
	case phase == "Succeeded":
		return podSucceeded
	case phase == "Running" && ready && !waiting:
		return podReady
	case phase == "Running" && crashing:
		return podCrashing
	case phase == "Pending" && unschedulable:
		return podUnschedulable
	case waiting:
		return podCantStart
	case phase == "Running" && restarted:
		return podRestarted
	case phase == "Running":
		return podStarting
	case phase == "Pending", phase == "":
		return podPending
	}
	return podUnknown
}

// containersOf reports whether containers crash, wait because of an error, or have ended before.
func containersOf(p input) (crashing, waiting, restarted bool) {
	for _, c := range p.status["containerStatuses"].Array() {
		reason := c.Get("state.waiting.reason").Str
		crashing = crashing || reason == "CrashLoopBackOff"
		waiting = waiting || strings.HasPrefix(reason, "Err") || strings.HasSuffix(reason, "Error") || strings.HasSuffix(reason, "BackOff")
		restarted = restarted || c.Get("lastState.terminated").Exists()
	}
	return crashing, waiting, restarted
}
