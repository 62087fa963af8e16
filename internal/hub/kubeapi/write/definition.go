package write

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds/registry"
)

// definitions is the strategy of CRDs. It applies the validation of Kubernetes to a copy with
// defaults; the spec is stored without them. The storage sets the status in the same write, so that
// objects can be created right after their CRD.
type definitions struct {
	inert
	kinds *registry.Registry
	rules rest.RESTCreateUpdateStrategy
}

func newDefinitions(all *registry.Registry, plain inert) definitions {
	return definitions{inert: plain, kinds: all, rules: customresourcedefinition.NewStrategy(plain.ObjectTyper)}
}

func (d definitions) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	d.inert.PrepareForCreate(ctx, obj)
	storeVersions(obj)
}

func (d definitions) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	d.inert.PrepareForUpdate(ctx, obj, old)
	storeVersions(obj)
}

// storeVersions adds the version that is stored from now on to the status. The rest of the status
// depends on other objects of the space, see namedStorage. The old object may share the list.
func storeVersions(obj runtime.Object) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(slices.Clip(crd.Status.StoredVersions), v.Name)
		}
	}
}

func (d definitions) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if problems := checkWanted(ctx); len(problems) > 0 {
		return problems
	}
	if problems := validateWeight(ctx, obj); len(problems) > 0 {
		return problems
	}
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	// The names in the status are copies of those in the spec, which are validated.
	crd.Status.AcceptedNames, crd.Status.Conditions = apiextensions.CustomResourceDefinitionNames{}, nil
	if problems := checkWanted(ctx); len(problems) > 0 {
		return problems
	}
	if problems := d.rules.Validate(ctx, crd); len(problems) > 0 {
		return problems
	}
	if problems := validateColumns(obj, nil); len(problems) > 0 {
		return problems
	}
	return d.validateKind(ctx, obj)
}

// checkWanted fails if the request of a context has ended. It is called before each long step.
func checkWanted(ctx context.Context) field.ErrorList {
	if err := ctx.Err(); err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("validate a CustomResourceDefinition: %w", err))}
	}
	return nil
}

// validateKind refuses kinds that are built in or can't be compiled. It uses the names in the spec,
// not the accepted ones.
func (d definitions) validateKind(ctx context.Context, obj runtime.Object) field.ErrorList {
	if problems := checkWanted(ctx); len(problems) > 0 {
		return problems
	}
	crd := *obj.(*apiextensionsv1.CustomResourceDefinition)
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return d.kinds.ValidateCRD(ctx, &crd)
}

func (d definitions) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if problems := checkWanted(ctx); len(problems) > 0 {
		return problems
	}
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	previous, problem := internalCRD(old)
	if problem != nil {
		return field.ErrorList{problem}
	}
	crd.Status.AcceptedNames, crd.Status.Conditions = previous.Status.AcceptedNames, previous.Status.Conditions
	if crd.Generation != previous.Generation { // status and labels of a stored CRD can always change
		if problems := validateWeight(ctx, obj); len(problems) > 0 {
			return problems
		}
	}
	problems := checkWanted(ctx)
	if len(problems) == 0 {
		problems = d.rules.ValidateUpdate(ctx, crd, previous)
	}
	if len(problems) > 0 || crd.Generation == previous.Generation {
		return problems
	}
	if problems := validateColumns(obj, old); len(problems) > 0 {
		return problems
	}
	return d.validateKind(ctx, obj)
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
	previous, problem2 := internalCRD(old)
	if problem != nil || problem2 != nil {
		return nil
	}
	return d.rules.WarningsOnUpdate(ctx, crd, previous)
}

// definitionStatus is the strategy of the status of CRDs. Clients may remove stored versions; the
// hub recomputes the rest.
type definitionStatus struct {
	definitions
	rules rest.RESTUpdateStrategy
}

func newDefinitionStatus(all *registry.Registry, plain inert) definitionStatus {
	return definitionStatus{definitions: newDefinitions(all, plain), rules: customresourcedefinition.NewStatusStrategy(plain.ObjectTyper)}
}

func (d definitionStatus) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	inertStatus{d.inert}.PrepareForUpdate(ctx, obj, old)
	now, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	previous, ok2 := old.(*apiextensionsv1.CustomResourceDefinition)
	if ok && ok2 {
		stored := now.Status.StoredVersions
		previous.Status.DeepCopyInto(&now.Status)
		now.Status.StoredVersions = stored
	}
	storeVersions(obj)
}

func (d definitionStatus) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	crd, problem := internalCRD(obj)
	if problem != nil {
		return field.ErrorList{problem}
	}
	previous, problem := internalCRD(old)
	if problem != nil {
		return field.ErrorList{problem}
	}
	return d.rules.ValidateUpdate(ctx, crd, previous)
}

// internalCRD returns a CRD with the defaults of Kubernetes, in the internal version for
// validation. It shares memory with the CRD and must not be changed.
func internalCRD(obj runtime.Object) (*apiextensions.CustomResourceDefinition, *field.Error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, field.InternalError(nil, fmt.Errorf("want a CustomResourceDefinition, got %T", obj))
	}
	defaulted := *crd // defaults change only the copied struct, the conversion and the list of versions
	defaulted.Spec.Conversion = crd.Spec.Conversion.DeepCopy()
	defaulted.Status.StoredVersions = slices.Clip(crd.Status.StoredVersions)
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&defaulted)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&defaulted, internal, nil); err != nil {
		return nil, field.InternalError(nil, fmt.Errorf("convert CRD %q: %w", crd.Name, err))
	}
	return internal, nil
}
