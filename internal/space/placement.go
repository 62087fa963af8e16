package space

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
)

// selecting validates the label selectors of a Placement, which its schema can't.
type selecting struct{ rest.RESTCreateUpdateStrategy }

func (s selecting) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.Validate(ctx, obj), validateSelectors(obj)...)
}

func (s selecting) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old), validateSelectors(obj)...)
}

// validateSelectors says nothing of an object that its schema refuses anyway.
func validateSelectors(obj runtime.Object) (errs field.ErrorList) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	var p v1alpha1.Placement
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p) != nil {
		return nil
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	for i, l := range p.Spec.Locations {
		path := field.NewPath("spec", "locations").Index(i).Child("selector")
		errs = append(errs, metav1validation.ValidateLabelSelector(l.Selector, options, path)...)
	}
	for i, d := range p.Spec.Downsync {
		path := field.NewPath("spec", "downsync").Index(i)
		for j := range d.NamespaceSelectors {
			errs = append(errs, metav1validation.ValidateLabelSelector(&d.NamespaceSelectors[j], options, path.Child("namespaceSelectors").Index(j))...)
		}
		for j := range d.LabelSelectors {
			errs = append(errs, metav1validation.ValidateLabelSelector(&d.LabelSelectors[j], options, path.Child("labelSelectors").Index(j))...)
		}
	}
	return errs
}
