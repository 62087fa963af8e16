package write

import (
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/engine/placement"
)

// TestAwaitLocations shows that a write of a spec takes back what a status that came from locations
// says of the spec before, and that no other write does.
func TestAwaitLocations(t *testing.T) {
	t.Parallel()
	returned := []metav1.ManagedFieldsEntry{{Manager: placement.StatusManager, Subresource: "status"}}
	job := func(generation int64, managers []metav1.ManagedFieldsEntry) runtime.Object {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: generation, ManagedFields: managers},
			Status:     batchv1.JobStatus{Succeeded: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		}
	}
	custom := func(generation int64, managers []metav1.ManagedFieldsEntry) runtime.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"n": int64(1), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}}}
		o.SetGeneration(generation)
		o.SetManagedFields(managers)
		return o
	}
	for _, c := range []struct {
		name     string
		obj, old runtime.Object
		done     string
		awaits   bool
	}{
		{"a Job", job(2, returned), job(1, returned), `"type":"Complete","status":"True"`, true},
		{"a Job with the same spec", job(1, returned), job(1, returned), `"type":"Complete","status":"True"`, false},
		{"a Job whose status is from the space", job(2, nil), job(1, nil), `"type":"Complete","status":"True"`, false},
		{"a custom kind", custom(2, returned), custom(1, returned), `"status":"True","type":"Ready"`, true},
		{"a custom kind with the same spec", custom(1, returned), custom(1, returned), `"status":"True","type":"Ready"`, false},
		{"a custom kind whose status is from the space", custom(2, nil), custom(1, nil), `"status":"True","type":"Ready"`, false},
	} {
		awaitLocations(c.obj, c.old)
		text, err := json.Marshal(c.obj)
		if err != nil {
			t.Fatal(err)
		}
		if awaits := strings.Contains(string(text), "Reconciling"); awaits != c.awaits || strings.Contains(string(text), c.done) == c.awaits {
			t.Errorf("%s: it awaits its locations is %t, want %t: %s", c.name, awaits, c.awaits, text)
		}
	}
}
