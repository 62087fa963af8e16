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
)

// awaitLocations marks a status that came back from locations as one of an earlier spec, in
// the write that changes the spec: the hub writes what the locations then say a little later, and a
// tool that reads in between would call the new spec done. Kinds whose statuses have an
// observedGeneration show it by that.
//
// It must be the last step before obj is stored. The condition that it adds is not in the schema of
// every custom kind, as those of all statuses that come back.
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
	awaited := func(status any) json.RawMessage {
		text, err := json.Marshal(status)
		if err != nil {
			return nil
		}
		source, err := json.Marshal(map[string]any{"metadata": map[string]any{"generation": now.GetGeneration(), "creationTimestamp": now.GetCreationTimestamp()}})
		if err != nil {
			return nil
		}
		return rollup.Alone(source, rollup.Part{Location: "all locations", Sound: true, Behind: true, Generation: previous.GetGeneration(), Status: text})
	}
	switch o := obj.(type) {
	case *batchv1.Job:
		var status batchv1.JobStatus
		if json.Unmarshal(awaited(o.Status), &status) == nil {
			o.Status = status
		}
	case *unstructured.Unstructured:
		status, found := o.Object["status"]
		if !found {
			return
		}
		var marked map[string]any
		if utiljson.Unmarshal(awaited(status), &marked) == nil {
			o.Object["status"] = marked
		}
	}
}
