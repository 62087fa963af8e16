package write

import (
	"encoding/json"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
)

// awaitLocations marks a status that locations have reported as one of an earlier spec, in the write
// that changes the spec. The hub stores the next reports a little later. A client that reads the
// object before would otherwise take the new spec for completed. Built-in kinds with an
// observedGeneration show this already, so only Jobs and custom kinds are marked.
//
// It must be called after validation: the schema of a custom kind may not allow the added condition.
func awaitLocations(obj, old runtime.Object) {
	now, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	previous, err := meta.Accessor(old)
	if err != nil || now.GetGeneration() <= previous.GetGeneration() ||
		!slices.ContainsFunc(previous.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == placement.StatusManager }) {
		return
	}
	awaited := func(r key.Resource, status any) json.RawMessage {
		text, err := json.Marshal(status)
		if err != nil {
			return nil
		}
		source, err := json.Marshal(map[string]any{"metadata": map[string]any{"generation": now.GetGeneration(), "creationTimestamp": now.GetCreationTimestamp()}})
		if err != nil {
			return nil
		}
		return rollup.Alone(r, source, rollup.Report{Location: "all locations", Sound: true, Behind: true, Generation: previous.GetGeneration(), Status: text})
	}
	switch o := obj.(type) {
	case *batchv1.Job:
		var status batchv1.JobStatus
		if json.Unmarshal(awaited(key.NewResource(batchv1.GroupName, "jobs"), o.Status), &status) == nil {
			o.Status = status
		}
	case *unstructured.Unstructured:
		status, found := o.Object["status"]
		if !found {
			return
		}
		var marked map[string]any
		if utiljson.Unmarshal(awaited(key.Resource{}, status), &marked) == nil {
			o.Object["status"] = marked
		}
	}
}
