package custom

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/internal/protocol/wire"
)

// strategy is the library's strategy for custom resources, which may be kept for as
// long as the kind while its validators come and go in the cache. It is safe for
// concurrent use.
type strategy struct {
	version version
	status  bool
	// light is the strategy without validators.
	light kinds.Strategy

	runtime.ObjectTyper
	names.NameGenerator
}

var _ kinds.Strategy = strategy{}

// Strategy is for requests to the resource itself.
func (v version) Strategy() kinds.Strategy { return v.strategy(false) }

// StatusStrategy is for updates of the status subresource, which the kind must have.
func (v version) StatusStrategy() kinds.Strategy { return v.strategy(true) }

func (v version) strategy(status bool) strategy {
	statusSpec, scaleSpec := subresources(v.spec)
	typer := v.def.typer
	main := customresource.NewStrategy(typer, v.def.namespaced, v.gvk(), nil, nil, nil, statusSpec, scaleSpec, v.spec.SelectableFields)
	s := strategy{version: v, status: status, light: main, ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator}
	if status {
		s.light = customresource.NewStatusStrategy(main)
	}
	return s
}

// compiled returns the library's strategy for the request, and all that was compiled for the version.
func (s strategy) compiled() (kinds.Strategy, *strategies, error) {
	compiled, err := s.version.def.artefacts().strategies[s.version.spec.Name]()
	if err != nil {
		return nil, nil, err
	}
	if s.status {
		if compiled.status == nil {
			return nil, nil, fmt.Errorf("validate status of %s: no such subresource", s.version.def.gv(s.version.spec.Name).WithResource(s.version.def.names.Plural))
		}
		return compiled.status, compiled, nil
	}
	return compiled.main, compiled, nil
}

// charge refuses an object whose validation would take too many steps, or is not wanted any more.
func (s strategy) charge(ctx context.Context, cost *schemacost.Schema, o runtime.Object) field.ErrorList {
	steps, err := 0, error(nil)
	if u, ok := o.(*unstructured.Unstructured); ok && cost != nil {
		steps, err = cost.Steps(ctx, u.Object, schemacost.MaxSteps)
	}
	switch {
	case err == nil && ctx.Err() != nil: // the library does not look at the context
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("validate an object of CRD %q: %w", s.version.def.name(), ctx.Err()))}
	case err != nil:
		return field.ErrorList{field.InternalError(nil, err)}
	case steps > schemacost.MaxSteps:
		return field.ErrorList{field.Forbidden(nil, fmt.Sprintf("the object takes more than %d steps to be validated by CRD %q: "+
			"give it fewer items, or the schema fewer branches (anyOf, oneOf, allOf), values of enum, fields, patterns, or rules that compare objects and lists, for each item", schemacost.MaxSteps, s.version.def.name()))}
	}
	return nil
}

// shorten keeps the first errors of very many, and the beginnings of those that are very long.
func shorten(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if len(err.Detail) > maxErrorText {
			err.Detail = wire.Clip(err.Detail, maxErrorText)
		}
		if text, ok := err.BadValue.(string); ok && len(text) > maxErrorText {
			err.BadValue = wire.Clip(text, maxErrorText)
		}
	}
	if len(errs) <= maxErrors {
		return errs
	}
	return append(errs[:maxErrors:maxErrors], field.Invalid(nil, nil, fmt.Sprintf("there are more errors: the first %d are shown", maxErrors)))
}

// maxErrors is how many errors an answer has: those of the schema, and some of other checks.
const maxErrors = 2 * schemacost.MaxErrors

// maxErrorText is how many bytes the detail of an error has, and its value.
const maxErrorText = 4 << 10

// NamespaceScoped reports whether objects are in namespaces.
func (s strategy) NamespaceScoped() bool { return s.light.NamespaceScoped() }

// GetResetFields returns the fields that an apply by this strategy must not own.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.light.GetResetFields()
}

// PrepareForCreate drops the status and sets the first generation.
func (s strategy) PrepareForCreate(ctx context.Context, o runtime.Object) {
	s.light.PrepareForCreate(ctx, o)
}

// PrepareForUpdate keeps what the request may not change and counts the generation.
func (s strategy) PrepareForUpdate(ctx context.Context, o, old runtime.Object) {
	s.light.PrepareForUpdate(ctx, o, old)
}

// Validate checks schema, list types, embedded objects and rules.
func (s strategy) Validate(ctx context.Context, o runtime.Object) field.ErrorList {
	library, compiled, err := s.compiled()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if errs := s.charge(ctx, compiled.cost, o); len(errs) > 0 {
		return errs
	}
	return shorten(compiled.rules.check(ctx, s.version.def.name(), library.Validate(ctx, o), o, nil))
}

// ValidateUpdate is Validate with transition rules, and without complaint about
// what was wrong before and did not change. If validation takes too many steps, since the CRD
// was changed after the object was stored, the metadata can still be changed.
func (s strategy) ValidateUpdate(ctx context.Context, o, old runtime.Object) field.ErrorList {
	library, compiled, err := s.compiled()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if errs := s.charge(ctx, compiled.cost, o); len(errs) > 0 {
		if ctx.Err() == nil && sameContent(o, old) {
			return s.light.ValidateUpdate(ctx, o, old)
		}
		return errs
	}
	return shorten(compiled.rules.check(ctx, s.version.def.name(), library.ValidateUpdate(ctx, o, old), o, old))
}

// WarningsOnCreate warns of doubtful finalizers.
func (s strategy) WarningsOnCreate(ctx context.Context, o runtime.Object) []string {
	return s.light.WarningsOnCreate(ctx, o)
}

// WarningsOnUpdate warns of doubtful finalizers that are new.
func (s strategy) WarningsOnUpdate(ctx context.Context, o, old runtime.Object) []string {
	return s.light.WarningsOnUpdate(ctx, o, old)
}

// Canonicalize changes nothing.
func (s strategy) Canonicalize(o runtime.Object) { s.light.Canonicalize(o) }

// AllowCreateOnUpdate is false: PUT creates no custom resource.
func (s strategy) AllowCreateOnUpdate() bool { return s.light.AllowCreateOnUpdate() }

// AllowUnconditionalUpdate is false: PUT needs a resourceVersion.
func (s strategy) AllowUnconditionalUpdate() bool { return s.light.AllowUnconditionalUpdate() }

// GetAttrs is what selectors see of an object.
func (s strategy) GetAttrs(o runtime.Object) (labels.Set, fields.Set, error) {
	return s.light.GetAttrs(o)
}
