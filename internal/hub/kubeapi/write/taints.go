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

// tainted is the strategy of Locations: the write that brings a taint also notes in the
// status when it came, so that what was at the location then can be told from what came
// later.
type tainted struct {
	rest.RESTCreateUpdateStrategy
	// revision is the newest of which the hub knows.
	revision func() int64
}

func (s tainted) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	s.note(obj, nil)
}

func (s tainted) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	s.note(obj, old)
}

// note gives obj the times of its taints: those that old has had them keep theirs.
func (s tainted) note(obj, old runtime.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var now, was v1alpha1.Location
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &now) != nil {
		return // the schema refuses it
	}
	if o, ok := old.(*unstructured.Unstructured); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &was) != nil {
		was = v1alpha1.Location{}
	}
	came := make([]any, 0, len(now.Spec.Taints))
	for _, t := range now.Spec.Taints {
		came = append(came, map[string]any{"key": t.Key, "effect": string(t.Effect), "resourceVersion": s.since(t, &was)})
	}
	if had, found, _ := unstructured.NestedSlice(u.Object, "status", "taints"); equality.Semantic.DeepEqual(had, came) || !found && len(came) == 0 {
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

// since is when a taint of a Location came. Another value is not another taint.
func (s tainted) since(t v1alpha1.Taint, was *v1alpha1.Location) string {
	had := false
	for _, of := range was.Spec.Taints {
		had = had || of.Key == t.Key && of.Effect == t.Effect
	}
	for _, c := range was.Status.Taints {
		if had && c.Key == t.Key && c.Effect == t.Effect {
			return c.ResourceVersion
		}
	}
	return strconv.FormatInt(s.revision(), 10)
}

// validateLocation validates taints and properties as far as the schema can't. It has no
// errors for an object that the schema refuses anyway.
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

// validateSeats validates what a Placement's schema can't of its pick and tolerations.
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
