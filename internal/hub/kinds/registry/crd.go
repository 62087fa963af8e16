package registry

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
)

// ValidateCRD validates what a space requires of a CRD beyond Kubernetes' own validation: it
// must not redefine kinds that every space has, and it must compile.
func (r *Registry) ValidateCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	spec := field.NewPath("spec")
	if crd.Spec.Group == v1alpha1.Group {
		return field.ErrorList{field.Forbidden(spec.Child("group"), fmt.Sprintf("group %q is Orrery's own", crd.Spec.Group))}
	}
	var errs field.ErrorList
	names := spec.Child("names")
	for _, k := range r.builtins {
		if k.GVR.Group != crd.Spec.Group {
			continue
		}
		if k.GVR.Resource == crd.Spec.Names.Plural {
			errs = append(errs, field.Forbidden(names.Child("plural"), fmt.Sprintf("resource %q is built in", k.GVR.GroupResource())))
		}
		if k.GVK.Kind == crd.Spec.Names.Kind {
			errs = append(errs, field.Forbidden(names.Child("kind"), fmt.Sprintf("kind %q is built in", k.GVK.GroupKind())))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if err := r.compiler.Check(ctx, crd); err != nil {
		return field.ErrorList{field.Invalid(spec.Child("versions"), field.OmitValueType{}, err.Error())}
	}
	return nil
}
