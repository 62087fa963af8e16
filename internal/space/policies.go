package space

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/customize"
)

// validated is the strategy of policies: it also validates what their schema can't, label
// selectors and paths.
type validated struct {
	rest.RESTCreateUpdateStrategy
	validate func(map[string]any) field.ErrorList
}

func (s validated) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.Validate(ctx, obj), s.more(obj)...)
}

func (s validated) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old), s.more(obj)...)
}

func (s validated) more(obj runtime.Object) field.ErrorList {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	return s.validate(u.Object)
}

// validatePlacement validates the selectors of a Placement. It has no errors for an object
// that the schema refuses anyway.
func validatePlacement(object map[string]any) (errs field.ErrorList) {
	var p v1alpha1.Placement
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &p) != nil {
		return nil
	}
	errs = validateWhere(p.Spec.Locations)
	for i, d := range p.Spec.Downsync {
		errs = append(errs, validateTest(d.ObjectTest, field.NewPath("spec", "downsync").Index(i))...)
	}
	return errs
}

// validateCustomizer validates the selectors and paths of a Customizer. It has no errors for
// an object that the schema refuses anyway.
func validateCustomizer(object map[string]any) (errs field.ErrorList) {
	var c v1alpha1.Customizer
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &c) != nil {
		return nil
	}
	errs = validateWhere(c.Spec.Locations)
	for i, test := range c.Spec.Match {
		errs = append(errs, validateTest(test, field.NewPath("spec", "match").Index(i))...)
	}
	for i, r := range c.Spec.Rules {
		if _, err := customize.Parse(r.Path); err != nil && r.Path != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "rules").Index(i).Child("path"), r.Path, err.Error()))
		}
	}
	return errs
}

func validateWhere(entries []v1alpha1.LocationSelector) (errs field.ErrorList) {
	for i, l := range entries {
		errs = append(errs, validateSelector(l.Selector, field.NewPath("spec", "locations").Index(i).Child("selector"))...)
	}
	return errs
}

func validateTest(test v1alpha1.ObjectTest, path *field.Path) (errs field.ErrorList) {
	for i := range test.NamespaceSelectors {
		errs = append(errs, validateSelector(&test.NamespaceSelectors[i], path.Child("namespaceSelectors").Index(i))...)
	}
	for i := range test.LabelSelectors {
		errs = append(errs, validateSelector(&test.LabelSelectors[i], path.Child("labelSelectors").Index(i))...)
	}
	return errs
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}
