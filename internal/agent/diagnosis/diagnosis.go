package diagnosis

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// MaxText is the maximum size of a diagnosis, in bytes.
	MaxText = 256
	// MaxClaims is the largest number of claims that are read.
	MaxClaims = 4
	// MaxEventSubjects is the largest number of objects whose events are read.
	MaxEventSubjects = 3
	// maxEventAge is the age from which on an event does not count. Controllers repeat a failed
	// creation at least this often.
	maxEventAge = 20 * time.Minute
)

// Diagnosis is the reason why an object is not healthy.
type Diagnosis struct {
	Text string
	// Subject identifies the object that has the reason, and the sort of reason. Another text with the same
	// subject is about the same problem.
	Subject string
	// Final reports that the object cannot become healthy without a change.
	Final bool
}

// Diagnose returns the worst reason in the evidence. It returns false if there is none.
func Diagnose(e *Evidence) (Diagnosis, bool) {
	worst := e.worst(true)
	if worst.severity == nothing {
		return Diagnosis{}, false
	}
	text := worst.text
	if worst.uid != e.Object.Metadata.UID {
		text = worst.kind + " " + worst.name + ": " + text
	}
	subject := string(worst.uid) + "/" + strconv.Itoa(int(worst.severity))
	return Diagnosis{Text: wire.Clip(text, MaxText), Subject: subject, Final: worst.final}, true
}

// MissingClaims returns the names of the claims that the evidence lacks: those of Pods that are not
// scheduled.
func MissingClaims(e *Evidence) (names []string) {
	for i := range e.Pods {
		if ofPod(&e.Pods[i]).severity != unschedulable {
			continue
		}
		for _, v := range e.Pods[i].Spec.Volumes {
			if v.PersistentVolumeClaim != nil && len(names) < MaxClaims && !slices.Contains(names, v.PersistentVolumeClaim.ClaimName) {
				names = append(names, v.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return names
}

// EventSubjects returns the UIDs of the objects whose events the evidence needs, the most important
// first.
func EventSubjects(e *Evidence) (all []types.UID) {
	add := func(uid types.UID) {
		if len(all) < MaxEventSubjects && !slices.Contains(all, uid) {
			all = append(all, uid)
		}
	}
	for i := range e.Claims {
		if isUnbound(&e.Claims[i]) {
			add(e.Claims[i].UID)
		}
	}
	worst := e.worst(false)
	switch worst.severity {
	case notReady, creating:
		add(worst.uid)
	case nothing, podFailed:
		if createsByEvent(e.Object.Resource) {
			add(e.Object.Metadata.UID)
		}
	}
	return all
}

// worst returns the worst finding. Those that need an event count only with one if events is set.
func (e *Evidence) worst(events bool) (worst finding) {
	all := e.findings()
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.name, b.name))
	})
	for _, f := range all {
		if events && (f.severity == notReady || f.severity == creating) {
			event := e.newestEvent(f.uid, podReasons[f.severity]...)
			if event == nil {
				continue
			}
			f.text = event.Reason + ": " + event.Message
		}
		return f
	}
	return finding{}
}

// podReasons are the reasons of events that explain why a Pod is not ready, or not created.
var podReasons = map[severity][]string{
	notReady: {"Unhealthy", "FailedPostStartHook", "ProbeWarning"},
	creating: {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedCreatePodContainer", "NetworkNotReady"},
}

// findings returns the findings about the object and what it owns. Those about Pods of earlier
// ReplicaSets count only if there are no others.
func (e *Evidence) findings() []finding {
	var all, earlier []finding
	newest := e.newest()
	for i := range e.Pods {
		f := ofPod(&e.Pods[i])
		switch {
		case f.severity == nothing:
		case newest != nil && !isControlledBy(e.Pods[i].OwnerReferences, newest.UID):
			f.final = false // the newest ReplicaSet may be better
			earlier = append(earlier, f)
		default:
			all = append(all, f)
		}
	}
	for i := range e.Claims {
		if f, ok := e.ofClaim(&e.Claims[i]); ok {
			all = append(all, f)
		}
	}
	if f, ok := e.ofCreation(newest); ok {
		all = append(all, f)
	}
	if len(all) == 0 {
		return earlier
	}
	return all
}

// revisionAnnotation is the annotation by which a Deployment numbers its ReplicaSets.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// newest returns the ReplicaSet of a Deployment's current template; nil if there is none.
func (e *Evidence) newest() (newest *appsv1.ReplicaSet) {
	greatest := -1
	for i := range e.ReplicaSets {
		n, err := strconv.Atoi(e.ReplicaSets[i].Annotations[revisionAnnotation])
		if err == nil && n > greatest {
			newest, greatest = &e.ReplicaSets[i], n
		}
	}
	return newest
}

// generated matches the name of a Pod that the API server generated, which each attempt has another of.
var generated = regexp.MustCompile(`pods "([^"]*)-[a-z0-9]{5}"`)

// ofCreation returns why Pods cannot be created. ReplicaSets have a condition for that, which their controller removes
// when it can create Pods again. For other objects it is the newest event, unless a Pod was created since.
func (e *Evidence) ofCreation(newest *appsv1.ReplicaSet) (f finding, ok bool) {
	o := e.Object
	f = finding{severity: refused, kind: o.Kind, name: o.Metadata.Name, uid: o.Metadata.UID}
	message := ""
	for _, c := range o.Status.Conditions {
		if c.Type == string(appsv1.DeploymentReplicaFailure) && c.Status == string(corev1.ConditionTrue) {
			message = c.Reason + ": " + c.Message
		}
	}
	if newest != nil {
		for _, c := range newest.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				f.kind, f.name, f.uid = "ReplicaSet", newest.Name, newest.UID
				message = c.Reason + ": " + c.Message
			}
		}
	}
	if message == "" && createsByEvent(o.Resource) {
		event := e.newestEvent(f.uid, "FailedCreate")
		if event == nil || e.hasPodSince(timeOf(event)) {
			return f, false
		}
		message = event.Reason + ": " + strings.TrimPrefix(event.Message, "Error creating: ")
	}
	f.text = generated.ReplaceAllString(message, `pods "$1-*"`)
	return f, message != ""
}

// createsByEvent reports whether only events show that Pods of a resource's objects cannot be created.
func createsByEvent(r key.Resource) bool { return r == statefulSets || r == daemonSets || r == jobs }

// hasPodSince reports whether a Pod was created after a time.
func (e *Evidence) hasPodSince(t time.Time) bool {
	return slices.ContainsFunc(e.Pods, func(p corev1.Pod) bool { return p.CreationTimestamp.After(t) })
}

// isUnbound reports whether a claim has no volume.
func isUnbound(c *corev1.PersistentVolumeClaim) bool {
	return c.DeletionTimestamp == nil && c.Status.Phase != corev1.ClaimBound
}

// ofClaim returns why a claim has no volume.
func (e *Evidence) ofClaim(c *corev1.PersistentVolumeClaim) (finding, bool) {
	f := finding{severity: unbound, kind: "PersistentVolumeClaim", name: c.Name, uid: c.UID}
	reasons := []string{"ProvisioningFailed", "FailedBinding", "VolumeMismatch", "ExternalProvisioning"}
	if c.UID == e.Object.Metadata.UID { // a claim of a Pod waits for the Pod, which has another reason
		reasons = append(reasons, "WaitForFirstConsumer")
	}
	event := e.newestEvent(c.UID, reasons...)
	switch {
	case !isUnbound(c):
		return f, false
	case c.Status.Phase == corev1.ClaimLost:
		f.text = "ClaimLost: its volume no longer exists"
	case event == nil:
		return f, false
	default:
		f.text = event.Reason + ": " + event.Message
	}
	return f, true
}

// newestEvent returns the newest recent event of an object with one of the reasons; nil if there is
// none.
func (e *Evidence) newestEvent(uid types.UID, reasons ...string) (newest *corev1.Event) {
	for i := range e.Events {
		event := &e.Events[i]
		if event.InvolvedObject.UID != uid || !slices.Contains(reasons, event.Reason) || e.Now.Sub(timeOf(event)) > maxEventAge {
			continue
		}
		if newest == nil || timeOf(event).After(timeOf(newest)) {
			newest = event
		}
	}
	return newest
}

// timeOf returns when an event last occurred.
func timeOf(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if t.After(last) {
			last = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
