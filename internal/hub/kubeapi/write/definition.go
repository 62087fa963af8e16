package write

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/protocol/key"
)

// definitions is the strategy of CRDs: Kubernetes' own validation, on a copy with defaults,
// while the spec is stored as it was written. The status is set in the same write, so that
// objects can be created right after their CRD.
type definitions struct {
	inert
	server *Server
	rules  rest.RESTCreateUpdateStrategy
}

func (s *Server) newDefinitions(plain inert) definitions {
	return definitions{inert: plain, server: s, rules: customresourcedefinition.NewStrategy(plain.ObjectTyper)}
}

func (d definitions) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	d.inert.PrepareForCreate(ctx, obj)
	d.settle(ctx, obj)
}

func (d definitions) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if crd, ok := old.(*apiextensionsv1.CustomResourceDefinition); ok {
		// The status is settled in place, and the old object must not change.
		old = crd.DeepCopy()
	}
	d.inert.PrepareForUpdate(ctx, obj, old)
	d.settle(ctx, obj)
}

// settle sets the status that follows from the spec, and from the other CRDs and the
// APIBindings of the space.
func (d definitions) settle(ctx context.Context, obj runtime.Object) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	space, ok2 := SpaceFromContext(ctx)
	if !ok || !ok2 {
		return
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
	}
	now := d.server.config.Now()
	acceptNames(crd, d.server.namesTaken(d.server.config.Table.Snapshot(), space, crd.Spec.Group, key.Identity{Resource: key.CRDs, Name: crd.Name}), now)
	setConversion(crd, metav1.NewTime(now))
	setApproval(crd, metav1.NewTime(now))
}

func (d definitions) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if problems := validateWeight(ctx, obj); len(problems) > 0 {
		return problems
	}
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	// The names in the status are copies of those in the spec, which are validated.
	crd.Status.AcceptedNames, crd.Status.Conditions = apiextensions.CustomResourceDefinitionNames{}, nil
	if problems := d.rules.Validate(ctx, crd); len(problems) > 0 {
		return problems
	}
	if problems := validateColumns(obj, nil); len(problems) > 0 {
		return problems
	}
	return d.validateKind(obj)
}

// validateKind refuses kinds that are built in or can't be compiled. It goes by the names
// that the CRD asks for, not by those that it has been given.
func (d definitions) validateKind(obj runtime.Object) field.ErrorList {
	crd := *obj.(*apiextensionsv1.CustomResourceDefinition)
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return d.server.config.Kinds.ValidateCRD(&crd)
}

func (d definitions) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	was, problem := internalCRD(old)
	if problem != nil {
		return field.ErrorList{problem}
	}
	crd.Status.AcceptedNames, crd.Status.Conditions = was.Status.AcceptedNames, was.Status.Conditions
	if crd.Generation != was.Generation { // what is there stays, and its status and labels can change
		if problems := validateWeight(ctx, obj); len(problems) > 0 {
			return problems
		}
	}
	problems := d.rules.ValidateUpdate(ctx, crd, was)
	if len(problems) > 0 || crd.Generation == was.Generation {
		return problems
	}
	if problems := validateColumns(obj, old); len(problems) > 0 {
		return problems
	}
	return d.validateKind(obj)
}

func (d definitions) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	crd, problem := internalCRD(obj)
	if problem != nil {
		return nil
	}
	return d.rules.WarningsOnCreate(ctx, crd)
}

func (d definitions) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	crd, problem := internalCRD(obj)
	was, problem2 := internalCRD(old)
	if problem != nil || problem2 != nil {
		return nil
	}
	return d.rules.WarningsOnUpdate(ctx, crd, was)
}

// definitionStatus is the strategy of the status of CRDs: clients may remove stored
// versions; the rest is settled again.
type definitionStatus struct {
	definitions
	rules rest.RESTUpdateStrategy
}

func (s *Server) newDefinitionStatus(plain inert) definitionStatus {
	return definitionStatus{definitions: s.newDefinitions(plain), rules: customresourcedefinition.NewStatusStrategy(plain.ObjectTyper)}
}

func (d definitionStatus) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	inertStatus{d.inert}.PrepareForUpdate(ctx, obj, old)
	now, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	was, ok2 := old.(*apiextensionsv1.CustomResourceDefinition)
	if ok && ok2 {
		stored := now.Status.StoredVersions
		was.Status.DeepCopyInto(&now.Status)
		now.Status.StoredVersions = stored
	}
	d.settle(ctx, obj)
}

func (d definitionStatus) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	was, problem := internalCRD(old)
	if problem != nil {
		return field.ErrorList{problem}
	}
	return d.rules.ValidateUpdate(ctx, crd, was)
}

// internalCRD is a CRD with Kubernetes' defaults, in the internal version that its
// validation takes.
func internalCRD(obj runtime.Object) (*apiextensions.CustomResourceDefinition, *field.Error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, field.InternalError(nil, fmt.Errorf("want a CustomResourceDefinition, got %T", obj))
	}
	crd = crd.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return nil, field.InternalError(nil, fmt.Errorf("convert CRD %q: %w", crd.Name, err))
	}
	return internal, nil
}
