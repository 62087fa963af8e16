package kinds

import (
	"context"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// compiledStrategy is what the library's strategies for custom resources can do.
type compiledStrategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
	GetAttrs(runtime.Object) (labels.Set, fields.Set, error)
}

// strategies are the compiled strategies of one version; status is nil if the
// version has no such subresource.
type strategies struct{ main, status compiledStrategy }

func (c *Custom) strategies() (*strategies, error) {
	return c.def.artefacts().strategies[c.version.Name]()
}

func (d *definition) compileStrategies(a *artefacts, v apiextensionsv1.CustomResourceDefinitionVersion) (*strategies, error) {
	structural, err := a.structural()
	if err != nil {
		return nil, err
	}
	crd, err := d.unpack()
	if err != nil {
		return nil, err
	}
	props, err := schemaOf(crd, v.Name)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("compile validation of %q in CRD %q: %w", v.Name, d.name(), err)
	}
	statusSpec, scaleSpec := subresources(v)
	var statusValidator validation.SchemaValidator
	if statusSpec != nil && props != nil {
		if status, ok := props.Properties["status"]; ok {
			if statusValidator, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, fmt.Errorf("compile status validation of %q in CRD %q: %w", v.Name, d.name(), err)
			}
		}
	}
	gv := d.gv(v.Name)
	main := customresource.NewStrategy(d.compiler.typer, d.namespaced, gv.WithKind(d.names.Kind),
		validator, statusValidator, structural[v.Name], statusSpec, scaleSpec, v.SelectableFields)
	s := &strategies{main: main}
	if statusSpec != nil {
		s.status = customresource.NewStatusStrategy(main)
	}
	return s, nil
}

func subresources(v apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensions.CustomResourceSubresourceStatus, *apiextensions.CustomResourceSubresourceScale) {
	var status *apiextensions.CustomResourceSubresourceStatus
	var scale *apiextensions.CustomResourceSubresourceScale
	if v.Subresources == nil {
		return nil, nil
	}
	if v.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	if s := v.Subresources.Scale; s != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{
			SpecReplicasPath:   s.SpecReplicasPath,
			StatusReplicasPath: s.StatusReplicasPath,
			LabelSelectorPath:  s.LabelSelectorPath,
		}
	}
	return status, scale
}

// Strategy is how objects of a version are created, updated and deleted: the
// library's strategy, which may be kept for as long as the Custom while its
// validators come and go in the cache. Objects are *unstructured.Unstructured.
// It is safe for concurrent use.
type Strategy struct {
	custom *Custom
	status bool
	// light is the strategy without validators.
	light compiledStrategy

	runtime.ObjectTyper
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy  = Strategy{}
	_ rest.RESTUpdateStrategy  = Strategy{}
	_ rest.RESTDeleteStrategy  = Strategy{}
	_ rest.ResetFieldsStrategy = Strategy{}
)

// Strategy is for requests to the resource itself.
func (c *Custom) Strategy() Strategy { return c.strategy(false) }

// StatusStrategy is for updates of the status subresource, which the kind must have.
func (c *Custom) StatusStrategy() Strategy { return c.strategy(true) }

func (c *Custom) strategy(status bool) Strategy {
	statusSpec, scaleSpec := subresources(c.version)
	main := customresource.NewStrategy(c.def.compiler.typer, c.def.namespaced, c.kind.GVK, nil, nil, nil, statusSpec, scaleSpec, c.version.SelectableFields)
	s := Strategy{custom: c, status: status, light: main, ObjectTyper: c.def.compiler.typer, NameGenerator: names.SimpleNameGenerator}
	if status {
		s.light = customresource.NewStatusStrategy(main)
	}
	return s
}

func (s Strategy) compiled() (compiledStrategy, error) {
	compiled, err := s.custom.strategies()
	if err != nil {
		return nil, err
	}
	if s.status {
		if compiled.status == nil {
			return nil, fmt.Errorf("validate status of %s: no such subresource", s.custom.kind.GVR)
		}
		return compiled.status, nil
	}
	return compiled.main, nil
}

// NamespaceScoped says that objects are in namespaces.
func (s Strategy) NamespaceScoped() bool { return s.light.NamespaceScoped() }

// GetResetFields says which fields an apply through this strategy must not own.
func (s Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.light.GetResetFields()
}

// PrepareForCreate drops the status and sets the first generation.
func (s Strategy) PrepareForCreate(ctx context.Context, o runtime.Object) {
	s.light.PrepareForCreate(ctx, o)
}

// PrepareForUpdate keeps what the request may not change and counts the generation.
func (s Strategy) PrepareForUpdate(ctx context.Context, o, old runtime.Object) {
	s.light.PrepareForUpdate(ctx, o, old)
}

// Validate checks schema, list types, embedded objects and rules.
func (s Strategy) Validate(ctx context.Context, o runtime.Object) field.ErrorList {
	compiled, err := s.compiled()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return compiled.Validate(ctx, o)
}

// ValidateUpdate is Validate with transition rules, and without complaint about
// what was wrong before and did not change.
func (s Strategy) ValidateUpdate(ctx context.Context, o, old runtime.Object) field.ErrorList {
	compiled, err := s.compiled()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return compiled.ValidateUpdate(ctx, o, old)
}

// WarningsOnCreate warns of doubtful finalizers.
func (s Strategy) WarningsOnCreate(ctx context.Context, o runtime.Object) []string {
	return s.light.WarningsOnCreate(ctx, o)
}

// WarningsOnUpdate warns of doubtful finalizers that are new.
func (s Strategy) WarningsOnUpdate(ctx context.Context, o, old runtime.Object) []string {
	return s.light.WarningsOnUpdate(ctx, o, old)
}

// Canonicalize changes nothing.
func (s Strategy) Canonicalize(o runtime.Object) { s.light.Canonicalize(o) }

// AllowCreateOnUpdate is false: PUT creates no custom resource.
func (s Strategy) AllowCreateOnUpdate() bool { return s.light.AllowCreateOnUpdate() }

// AllowUnconditionalUpdate is false: PUT needs a resourceVersion.
func (s Strategy) AllowUnconditionalUpdate() bool { return s.light.AllowUnconditionalUpdate() }

// GetAttrs is what selectors see of an object.
func (s Strategy) GetAttrs(o runtime.Object) (labels.Set, fields.Set, error) {
	return s.light.GetAttrs(o)
}
