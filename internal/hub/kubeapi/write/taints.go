package write

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// tainted is the strategy of Locations. The write that adds a taint also records the revision in the
// status. Thus objects that were at the location before can be distinguished from later ones.
type tainted struct {
	rest.RESTCreateUpdateStrategy
	// revision returns the newest revision that the hub knows.
	revision func() int64
}

func (s tainted) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	s.recordTaints(obj, nil)
}

func (s tainted) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	s.recordTaints(obj, old)
}

// recordTaints sets the revisions of the taints of obj. Taints that old has keep theirs.
func (s tainted) recordTaints(obj, old runtime.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var now, previous v1alpha1.Location
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &now) != nil {
		return // the schema refuses it
	}
	if o, ok := old.(*unstructured.Unstructured); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &previous) != nil {
		previous = v1alpha1.Location{}
	}
	came := make([]any, 0, len(now.Spec.Taints))
	for _, t := range now.Spec.Taints {
		came = append(came, map[string]any{"key": t.Key, "effect": string(t.Effect), "resourceVersion": s.since(t, &previous)})
	}
	if recorded, found, _ := unstructured.NestedSlice(u.Object, "status", "taints"); equality.Semantic.DeepEqual(recorded, came) || !found && len(came) == 0 {
		return
	}
	if len(came) == 0 {
		unstructured.RemoveNestedField(u.Object, "status", "taints")
		return
	}
	if unstructured.SetNestedSlice(u.Object, came, "status", "taints") != nil {
		return // a status that is no object is refused
	}
}

// since returns the revision at which a taint was added. A new value is still the same taint.
func (s tainted) since(t v1alpha1.Taint, previous *v1alpha1.Location) string {
	existed := false
	for _, old := range previous.Spec.Taints {
		existed = existed || old.Key == t.Key && old.Effect == t.Effect
	}
	for _, c := range previous.Status.Taints {
		if existed && c.Key == t.Key && c.Effect == t.Effect {
			return c.ResourceVersion
		}
	}
	return strconv.FormatInt(s.revision(), 10)
}

// validateLocation validates a Location's taints. It has no errors for an object that the schema
// refuses.
func validateLocation(_ key.Space, object map[string]any) (errs field.ErrorList) {
	var l v1alpha1.Location
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &l) != nil {
		return nil
	}
	path := field.NewPath("spec", "taints")
	for i, t := range l.Spec.Taints {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Index(i).Child("key"))...)
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Index(i).Child("value"), t.Value, problem))
		}
	}
	return errs
}

// validateSeats validates the pick and tolerations of a Placement.
func validateSeats(spec *v1alpha1.PlacementSpec) (errs field.ErrorList) {
	if p := spec.Pick; p != nil && p.SpreadBy != "" {
		errs = append(errs, metav1validation.ValidateLabelName(p.SpreadBy, field.NewPath("spec", "pick", "spreadBy"))...)
	}
	path := field.NewPath("spec", "tolerations")
	for i, t := range spec.Tolerations {
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Index(i).Child("key"))...)
		}
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Index(i).Child("value"), t.Value, problem))
		}
	}
	return errs
}
