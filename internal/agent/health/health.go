// Package health judges how an object at the target does, by the rules of kstatus, which
// Flux and Helm go by, too; and it reads the numbers of its spec that its status is measured
// by. It is pure: health is a function of the object as it was seen, and of nothing else.
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

// Object is what of an object its health depends on.
type Object struct {
	APIVersion, Kind string
	Generation       int64 // 0: it has none
	Deleting         bool
	// Spec needs to have what ownership.Observation has of it; it and Status may be empty.
	Spec, Status []byte
}

// Of is how an object does, and, if it is not Healthy, why.
//
// One rule of kstatus goes by the clock: it takes a Pod that can't be scheduled for
// InProgress in its first seconds. Nothing would happen at the cluster when these are over,
// so that rule is not told how old the Pod is: it is Degraded at once, and no longer when
// the cluster has scheduled it.
func Of(o Object) (is wire.Health, note string) {
	defer func() { // the library trusts the types in a Pod's status, and a cluster may serve anything
		if problem := recover(); problem != nil {
			is, note = wire.HealthUnknown, wire.Brief(fmt.Sprintf("its status is not as the rules expect it: %v", problem))
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
		return wire.Healthy, ""
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

// decode makes of an object what the library reads.
func (o Object) decode() (*unstructured.Unstructured, error) {
	metadata := map[string]any{}
	if o.Generation != 0 {
		metadata["generation"] = o.Generation
	}
	if o.Deleting {
		metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z" // that it has one is all that counts
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

// Wanted has the numbers of a spec that a status of the resource is measured by; nil if it
// has none.
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
