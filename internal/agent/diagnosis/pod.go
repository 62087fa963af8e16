package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// ofPod returns the worst finding about a Pod. A Pod that is being deleted has none.
func ofPod(p *corev1.Pod) (worst finding) {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
		return finding{}
	}
	add := func(f finding) {
		if f.severity > worst.severity {
			f.kind, f.name, f.uid = "Pod", p.Name, p.UID
			worst = f
		}
	}
	ended := p.Status.Phase == corev1.PodFailed
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			add(ofContainer(&statuses[i], ended))
		}
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionFalse:
		case c.Type == corev1.PodScheduled:
			add(finding{severity: unschedulable, text: withMessage(c.Reason, c.Message)})
		case c.Type == corev1.PodReady && c.Reason == "ReadinessGatesNotReady":
			add(finding{severity: unschedulable, text: withMessage(c.Reason, c.Message)})
		}
	}
	if ended {
		add(finding{severity: podFailed, text: withMessage(cmp.Or(p.Status.Reason, string(corev1.PodFailed)), p.Status.Message)})
	}
	return worst
}

// Reasons for which a container waits that are no faults by themselves.
const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
)

// ofContainer returns the finding about a container. podEnded reports whether its Pod ran to its end.
func ofContainer(s *corev1.ContainerStatus, podEnded bool) finding {
	if w := s.State.Waiting; w != nil {
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff":
			return finding{severity: noImage, text: pullFailure(s, w.Message)}
		case "InvalidImageName", "ErrImageNeverPull":
			return finding{severity: noImage, final: true, text: fmt.Sprintf("%s: container %s, image %q", w.Reason, s.Name, s.Image)}
		case "CrashLoopBackOff":
			return crash(s, s.LastTerminationState.Terminated)
		case containerCreating:
			return finding{severity: creating}
		case podInitializing, "":
			return finding{}
		default:
			return finding{severity: notStarted, text: withMessage(w.Reason+": container "+s.Name, w.Message)}
		}
	}
	ended, last := s.State.Terminated, s.LastTerminationState.Terminated
	switch {
	case ended != nil && podEnded && ended.ExitCode != 0:
		return finding{severity: podFailed, text: fmt.Sprintf("%s: container %s, exit code %d", cmp.Or(ended.Reason, "Error"), s.Name, ended.ExitCode)}
	case ended != nil && ended.ExitCode != 0: // it is about to be started again
		return crash(s, ended)
	case s.State.Running != nil && !s.Ready && s.RestartCount > 0 && last != nil && last.ExitCode != 0: // between two crashes
		return crash(s, last)
	case s.State.Running != nil && !s.Ready:
		return finding{severity: notReady}
	}
	return finding{}
}

// crash returns the finding about a container that ended; last describes the end, and may be nil. The
// text is the same while the container waits and while it runs again.
func crash(s *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) finding {
	text := "CrashLoopBackOff: container " + s.Name
	if last != nil {
		text += fmt.Sprintf(", exit code %d", last.ExitCode)
		if last.Reason != "" && last.Reason != "Error" && last.Reason != "Completed" {
			text += " (" + last.Reason + ")"
		}
	}
	return finding{severity: crashing, text: fmt.Sprintf("%s, restarts: %d", text, s.RestartCount)}
}

// backOff matches the beginning of the message with which a kubelet waits before the next pull. The rest is
// the message of the last pull.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*"(: ErrImagePull)?(: )?`)

// pullFailure describes an image that cannot be pulled. A kubelet changes between ErrImagePull and
// ImagePullBackOff with each attempt, so the text does not contain which of them it is.
func pullFailure(s *corev1.ContainerStatus, message string) string {
	return withMessage(fmt.Sprintf("ImagePullBackOff: container %s, image %q", s.Name, s.Image), backOff.ReplaceAllString(message, ""))
}
