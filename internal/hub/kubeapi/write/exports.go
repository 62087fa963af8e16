package write

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// validateBinding validates an APIBinding. It has no errors for an object that the schema refuses.
func validateBinding(space key.Space, object map[string]any) (errs field.ErrorList) {
	var b v1alpha1.APIBinding
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &b) != nil {
		return nil
	}
	path, name := field.NewPath("spec", "export", "space"), b.Spec.Export.Space
	if name == "" {
		return nil
	}
	if err := key.ValidateName(name); err != nil {
		return field.ErrorList{field.Invalid(path, name, err.Error())}
	}
	if key.Space(name) == space {
		return field.ErrorList{field.Invalid(path, name, "a space has the resources that it exports")}
	}
	return nil
}

// validateExport validates an APIExport. It may claim only kinds that every space has. The CRDs of
// exported resources may be created later. It has no errors for an object that the schema refuses.
func (s *Server) validateExport(_ key.Space, object map[string]any) (errs field.ErrorList) {
	var e v1alpha1.APIExport
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &e) != nil {
		return nil
	}
	spec := field.NewPath("spec")
	for i, r := range e.Spec.Resources {
		if r.Group == v1alpha1.Group {
			errs = append(errs, field.Forbidden(spec.Child("resources").Index(i).Child("group"), fmt.Sprintf("group %q is Orrery's own", r.Group)))
		}
	}
	for i, c := range e.Spec.Claims {
		path := spec.Child("claims").Index(i)
		if reason := s.Unclaimable(key.NewResource(c.Group, c.Resource)); reason != "" {
			errs = append(errs, field.Invalid(path.Child("resource"), c.Resource, reason))
		}
		if c.Selector != nil {
			errs = append(errs, validateSelector(c.Selector, path.Child("selector"))...)
		}
		for j, r := range c.ReferredBy {
			if !slices.Contains(e.Spec.Resources, r.ExportedResource) {
				errs = append(errs, field.Invalid(path.Child("referredBy").Index(j).Child("resource"), r.Resource, "the export has no such resource"))
			}
		}
	}
	return errs
}

// Unclaimable returns the reason why an export can't claim a resource, or "".
func (s *Server) Unclaimable(r key.Resource) string {
	catalog := s.config.Kinds.Builtin(key.Space("")) // of any space but root
	k, ok := catalog.ForStorage(r)
	switch {
	case !ok:
		return "not every space has such a kind"
	case k.GVK.Group == v1alpha1.Group, r == key.CRDs, catalog.Access(k) != kinds.ReadWrite,
		r == eventResource, r == key.NewResource("coordination.k8s.io", "leases"):
		return "objects of this kind can't be claimed"
	}
	return ""
}
