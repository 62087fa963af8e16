package diagnosis

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// The resources of objects that are diagnosed, or that a diagnosis reads.
var (
	Pods        = key.Resource{Group: key.CoreGroup, Resource: "pods"}
	Claims      = key.Resource{Group: key.CoreGroup, Resource: "persistentvolumeclaims"}
	Events      = key.Resource{Group: key.CoreGroup, Resource: "events"}
	ReplicaSets = key.Resource{Group: "apps", Resource: "replicasets"}
	Deployments = key.Resource{Group: "apps", Resource: "deployments"}

	statefulSets = key.Resource{Group: "apps", Resource: "statefulsets"}
	daemonSets   = key.Resource{Group: "apps", Resource: "daemonsets"}
	jobs         = key.Resource{Group: "batch", Resource: "jobs"}
)

// Reads returns the resources that diagnoses of a resource's objects read, besides the objects
// themselves; nil if its objects are not diagnosed.
func Reads(r key.Resource) []key.Resource {
	switch r {
	case Deployments:
		return []key.Resource{ReplicaSets, Pods, Claims, Events}
	case ReplicaSets, statefulSets, daemonSets, jobs:
		return []key.Resource{Pods, Claims, Events}
	case Pods:
		return []key.Resource{Claims, Events}
	case Claims:
		return []key.Resource{Events}
	default:
		return nil
	}
}

// IsNeeded reports whether an object needs a diagnosis, by its health.
func IsNeeded(r key.Resource, health wire.Health) bool {
	return Reads(r) != nil && (health == wire.Progressing || health == wire.Degraded)
}

// defaultDeadline is the time after which an object that is still not healthy is Degraded, if its
// kind has no progressDeadlineSeconds. It is the default of Deployments.
const defaultDeadline = 10 * time.Minute

// Object is an object to diagnose, with the fields that a diagnosis needs.
type Object struct {
	Resource key.Resource      `json:"-"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Kind     string            `json:"kind"`
	Spec     struct {
		Selector                *metav1.LabelSelector `json:"selector"`
		ProgressDeadlineSeconds *int64                `json:"progressDeadlineSeconds"`
	} `json:"spec"`
	Status struct {
		// ObservedGeneration is 0 for kinds without it.
		ObservedGeneration int64       `json:"observedGeneration"`
		Conditions         []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type, Status, Reason, Message string
}

// ParseObject decodes an object of a resource.
func ParseObject(r key.Resource, text string) (*Object, error) {
	o := &Object{Resource: r}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return o, nil
}

// Labels returns the label selector of the object's Pods; empty if it has none.
func (o *Object) Labels() string {
	if o.Spec.Selector == nil || o.Resource == Claims { // a claim's selects volumes
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		return ""
	}
	return selector.String()
}

// Deadline returns how long a diagnosis of the object may last before the object is Degraded; 0 for
// a Job, which ends by its own limits.
func (o *Object) Deadline() time.Duration {
	switch seconds := o.Spec.ProgressDeadlineSeconds; {
	case o.Resource == jobs:
		return 0
	case seconds != nil && *seconds > 0 && *seconds < int64(24*time.Hour/time.Second):
		return time.Duration(*seconds) * time.Second
	default:
		return defaultDeadline
	}
}

// Evidence has the objects that explain the health of an object. Those that the agent could not read are missing.
type Evidence struct {
	Object      *Object
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
	Claims      []corev1.PersistentVolumeClaim
	Events      []corev1.Event
	// Now is the time of the reading.
	Now time.Time
}

// AddReplicaSet adds a ReplicaSet in JSON if the object controls it.
func (e *Evidence) AddReplicaSet(text string) {
	var r appsv1.ReplicaSet
	if json.Unmarshal([]byte(text), &r) == nil && isControlledBy(r.OwnerReferences, e.Object.Metadata.UID) {
		e.ReplicaSets = append(e.ReplicaSets, r)
	}
}

// AddPod adds a Pod in JSON if it is the object, or the object or one of its ReplicaSets controls it.
func (e *Evidence) AddPod(text string) {
	var p corev1.Pod
	if json.Unmarshal([]byte(text), &p) != nil {
		return
	}
	own := p.UID == e.Object.Metadata.UID || isControlledBy(p.OwnerReferences, e.Object.Metadata.UID)
	for i := range e.ReplicaSets {
		own = own || isControlledBy(p.OwnerReferences, e.ReplicaSets[i].UID)
	}
	if own {
		e.Pods = append(e.Pods, p)
	}
}

// AddClaim adds a PersistentVolumeClaim in JSON.
func (e *Evidence) AddClaim(text string) {
	var c corev1.PersistentVolumeClaim
	if json.Unmarshal([]byte(text), &c) == nil {
		e.Claims = append(e.Claims, c)
	}
}

// AddEvent adds an event in JSON.
func (e *Evidence) AddEvent(text string) {
	var event corev1.Event
	if json.Unmarshal([]byte(text), &event) == nil {
		e.Events = append(e.Events, event)
	}
}

func isControlledBy(owners []metav1.OwnerReference, uid types.UID) bool {
	for i := range owners {
		if owners[i].UID == uid && owners[i].Controller != nil && *owners[i].Controller {
			return uid != ""
		}
	}
	return false
}
