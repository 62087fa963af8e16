package columns

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func podCells(p *corev1.Pod, now time.Time) []any {
	s := summarizePod(p)
	restarts := itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts += fmt.Sprintf(" (%s ago)", duration.HumanDuration(now.Sub(s.lastRestart.Time)))
	}
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	gates := none
	if len(p.Spec.ReadinessGates) > 0 {
		open := 0
		for _, g := range p.Spec.ReadinessGates {
			if podCondition(p, g.ConditionType) == corev1.ConditionTrue {
				open++
			}
		}
		gates = ratio(open, len(p.Spec.ReadinessGates))
	}
	return []any{p.Name, ratio(s.ready, s.containers), s.status, restarts, age(p.CreationTimestamp, now),
		orNone(ip), orNone(p.Spec.NodeName), orNone(p.Status.NominatedNodeName), gates}
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// podSummary is what the many states of a pod's containers come to.
type podSummary struct {
	ready, containers int
	status            string
	restarts          int32
	lastRestart       metav1.Time
}

// restarted counts a container's restarts.
func (s *podSummary) restarted(c corev1.ContainerStatus) {
	s.restarts += c.RestartCount
	if t := c.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(&t.FinishedAt) {
		s.lastRestart = t.FinishedAt
	}
}

func summarizePod(p *corev1.Pod) podSummary {
	s := podSummary{containers: len(p.Spec.Containers), status: string(cmp.Or(p.Status.Phase, corev1.PodPending))}
	if p.Status.Reason != "" {
		s.status = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.status = c.Reason
		}
	}
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.containers++
		}
	}
	// Once initialized, only restarts of what still runs count.
	running := podSummary{}
	initializing := s.addInits(p, sidecars, &running)
	if !initializing || podCondition(p, corev1.PodInitialized) == corev1.ConditionTrue {
		s.restarts, s.lastRestart = running.restarts, running.lastRestart
		s.addContainers(p)
	}
	if p.DeletionTimestamp == nil {
		return s
	}
	switch {
	case p.Status.Reason == "NodeLost":
		s.status = "Unknown"
	case p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
		s.status = "Terminating"
	}
	return s
}

// addInits adds the init containers to the summary and reports whether any has not completed.
func (s *podSummary) addInits(p *corev1.Pod, sidecars map[string]bool, running *podSummary) bool {
	for i, c := range p.Status.InitContainerStatuses {
		s.restarted(c)
		if sidecars[c.Name] {
			running.restarted(c)
		}
		done, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case done != nil && done.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case done != nil:
			s.status = "Init:" + terminationReason(done)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.status = "Init:" + waiting.Reason
		default:
			s.status = "Init:" + ratio(i, len(p.Spec.InitContainers))
		}
		return true
	}
	return false
}

func (s *podSummary) addContainers(p *corev1.Pod) {
	anyRuns, failure := false, ""
	for _, c := range slices.Backward(p.Status.ContainerStatuses) {
		s.restarted(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = terminationReason(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.status
			}
		case c.Ready && c.State.Running != nil:
			anyRuns = true
			s.ready++
		}
	}
	if s.status != "Completed" {
		return
	}
	switch {
	case anyRuns && podCondition(p, corev1.PodReady) == corev1.ConditionTrue:
		s.status = "Running"
	case failure != "":
		s.status = failure
	case anyRuns:
		s.status = "NotReady"
	}
}

func terminationReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return "Signal:" + itoa(t.Signal)
	default:
		return "ExitCode:" + itoa(t.ExitCode)
	}
}
