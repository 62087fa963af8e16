package write

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// universal adds the rules for all kinds to a kind's strategy.
type universal struct {
	rest.RESTCreateUpdateStrategy
	server *Server
	kind   *kinds.Kind
}

// PrepareForCreate removes a deletion timestamp, which an apply or update that creates an object
// could contain.
func (u universal) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetDeletionTimestamp(nil)
		m.SetDeletionGracePeriodSeconds(nil)
	}
	u.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	if p := exportWriteFrom(ctx); p != nil {
		p.claim(obj)
	}
}

// PrepareForUpdate restores the values by which views slice, if the written version lacks them.
// Validation then uses the object that will be stored. If this fails, so does storage.
func (u universal) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	u.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	s, ok := SpaceFromContext(ctx)
	m, err := meta.Accessor(old)
	if !ok || err != nil {
		return
	}
	o := key.Object{Space: s, Identity: key.Identity{Resource: u.kind.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}}
	_ = u.server.keepValues(ctx, u.kind, o.Key(), obj, old)
}

func (u universal) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return slices.Concat(validateAnnotations(obj, nil), u.validateTemplates(obj), validateInView(ctx, obj, nil), u.RESTCreateUpdateStrategy.Validate(ctx, obj))
}

// ValidateUpdate returns why obj must not be stored. If nothing is wrong, it also marks the status of
// obj as one of the earlier spec, see awaitLocations.
func (u universal) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	// A stored template that an earlier version of the hub accepted does not prevent other changes.
	known := map[string]bool{}
	for _, err := range u.validateTemplates(old) {
		known[err.Error()] = true
	}
	templates := slices.DeleteFunc(u.validateTemplates(obj), func(err *field.Error) bool { return known[err.Error()] })
	sliced := u.protected(ctx, obj, old)
	if len(sliced) == 0 {
		sliced = validateInView(ctx, obj, old)
	}
	all := slices.Concat(validateAnnotations(obj, old), templates, sliced, u.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old))
	if len(all) == 0 {
		awaitLocations(obj, old)
	}
	return all
}

// validateTemplates refuses invalid templates. Its errors have the paths of the texts.
func (u universal) validateTemplates(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil || m.GetAnnotations()[v1alpha1.ExpandAnnotation] == "" {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(v1alpha1.ExpandAnnotation)
	if value := m.GetAnnotations()[v1alpha1.ExpandAnnotation]; value != "true" {
		return field.ErrorList{field.NotSupported(path, value, []string{"true"})}
	}
	if _, ok := obj.(*corev1.Secret); ok {
		return field.ErrorList{field.Forbidden(path, "the values of Secrets are no texts: have a Customizer change them, or a Secret for each location")}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	return u.server.config.Rules.CheckTemplates(object)
}

// maxAssigned limits the names in the annotation of direct assignment: the hub has an index of all
// names, even of locations that do not exist.
const maxAssigned = 1024

// validateAnnotations refuses invalid values, which would have no effect, and too many names of
// locations. As many names as old has are allowed; old is nil for a new object.
func validateAnnotations(obj, old runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	path := field.NewPath("metadata", "annotations")
	var problems field.ErrorList
	if value, ok := m.GetAnnotations()[v1alpha1.AssignedLocationsAnnotation]; ok {
		names := []string(nil)
		if o, err := meta.Accessor(old); err == nil {
			names, _ = assignedNames(o)
		}
		problems = append(problems, validateLocations(path.Key(v1alpha1.AssignedLocationsAnnotation), value, max(maxAssigned, len(names)))...)
	}
	returnStatuses := []v1alpha1.ReturnStatus{v1alpha1.ReturnStatusNone, v1alpha1.ReturnStatusSingleton, v1alpha1.ReturnStatusRollup}
	if value, ok := m.GetAnnotations()[v1alpha1.ReturnStatusAnnotation]; ok && !slices.Contains(returnStatuses, v1alpha1.ReturnStatus(value)) {
		problems = append(problems, field.NotSupported(path.Key(v1alpha1.ReturnStatusAnnotation), v1alpha1.ReturnStatus(value), returnStatuses))
	}
	return problems
}

// assignedNames returns the names in an object's annotation of direct assignment.
func assignedNames(m metav1.Object) (names []string, err error) {
	err = json.Unmarshal([]byte(m.GetAnnotations()[v1alpha1.AssignedLocationsAnnotation]), &names)
	return names, err
}

func validateLocations(path *field.Path, value string, most int) field.ErrorList {
	var names []string
	if err := json.Unmarshal([]byte(value), &names); err != nil || names == nil {
		return field.ErrorList{field.Invalid(path, value, `must be a JSON list of location names, such as ["a","b"]`)}
	}
	if len(names) > most {
		return field.ErrorList{field.Invalid(path, len(names), fmt.Sprintf("the annotation has more than %d names: use a Placement", most))}
	}
	for _, name := range names {
		if err := key.ValidateName(name); err != nil {
			return field.ErrorList{field.Invalid(path, value, err.Error())}
		}
	}
	return nil
}
