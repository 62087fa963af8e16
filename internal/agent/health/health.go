// Package health computes the health of an object at the target by the rules of kstatus, which Flux and Helm
// use, too. It is stricter for Jobs, Pods and StatefulSets that are Current by these rules although they wait or have
// failed. It also reads the numbers of a spec to which a status refers. It is pure: health is a function of
// the observed object alone.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Object has the data of an object on which its health depends.
type Object struct {
	APIVersion, Kind string
	Generation       int64 // 0: it has none
	Deleting         bool
	// Spec must contain the data that ownership.Observation has of it. It and Status may be empty.
	Spec, Status []byte
}

// Assess returns the health of an object and, if it is not Healthy, the reason.
//
// One rule of kstatus depends on the clock: a Pod that can't be scheduled is InProgress in its first seconds.
// The cluster sends no event at the end of that time. So Assess hides the age of the Pod from that rule: the Pod
// is Degraded at once, until the cluster has scheduled it.
func Assess(o Object) (is wire.Health, detail string) {
	defer func() { // the library relies on the types in a Pod's status, and a cluster may serve any
		if problem := recover(); problem != nil {
			is, detail = wire.HealthUnknown, wire.Brief(fmt.Sprintf("its status is not as the rules expect it: %v", problem))
		}
	}()
	u, err := o.decode()
	if err != nil {
		return wire.HealthUnknown, wire.Brief("decode its status: " + err.Error())
	}
	result, err := status.Compute(u)
	if err != nil {
		return wire.HealthUnknown, wire.Brief(err.Error())
	}
	switch result.Status {
	case status.CurrentStatus:
		return stricter(o.APIVersion, o.Kind, u.Object)
	case status.InProgressStatus, status.TerminatingStatus:
		is = wire.Progressing
	case status.FailedStatus:
		is = wire.Degraded
	case status.NotFoundStatus:
		return "", ""
	default:
		is = wire.HealthUnknown
	}
	return is, wire.Brief(result.Message)
}

// decode returns an object in the form that the library reads.
func (o Object) decode() (*unstructured.Unstructured, error) {
	metadata := map[string]any{}
	if o.Generation != 0 {
		metadata["generation"] = o.Generation
	}
	if o.Deleting {
		metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z" // only its existence counts
	}
	all := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": metadata}
	for field, text := range map[string][]byte{"spec": o.Spec, "status": o.Status} {
		if len(text) == 0 {
			continue
		}
		var value any
		if err := utiljson.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		if value != nil {
			all[field] = value
		}
	}
	return &unstructured.Unstructured{Object: all}, nil
}

// Wanted returns the numbers of a spec to which a status of the resource refers; nil if it has none.
func Wanted(r key.Resource, spec []byte) *wire.Wanted {
	var w wire.Wanted
	number := func(path string) *int64 {
		if v := gjson.GetBytes(spec, path); v.Type == gjson.Number {
			n := v.Int()
			return &n
		}
		return nil
	}
	w.Replicas = number("replicas")
	switch r {
	case key.NewResource("apps", "statefulsets"):
		w.Partition = number("updateStrategy.rollingUpdate.partition")
	case key.NewResource("batch", "jobs"):
		w.Completions, w.Parallelism = number("completions"), number("parallelism")
	}
	if w == (wire.Wanted{}) {
		return nil
	}
	return &w
}
