package custom

import (
	"context"
	"fmt"
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// rules evaluates x-kubernetes-validations as the library does, but within one budget for all attempts of a
// request. The library's strategy has a new one for each attempt, and one lasts for seconds.
type rules struct {
	// validator is nil if the schema has no rules.
	validator *cel.Validator
	schema    *structuralschema.Structural
}

// newRules compiles the rules of a schema, which may be nil. It also returns the schema without them, for
// the library's strategy.
func newRules(s *structuralschema.Structural) (rules, *structuralschema.Structural) {
	if s == nil {
		return rules{}, nil
	}
	r := rules{cel.NewValidator(s, true, celconfig.PerCallLimit), s}
	if r.validator == nil {
		return r, s
	}
	return r, withoutRules(s)
}

// check appends the errors of rules to those that an object has already; old is nil if it is new.
func (r rules) check(ctx context.Context, crd string, errs field.ErrorList, o, old runtime.Object) field.ErrorList {
	now, ok := o.(*unstructured.Unstructured)
	if r.validator == nil || !ok {
		return errs
	}
	if slices.ContainsFunc(errs, isBlocking) {
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	var before map[string]any
	var options []cel.Option
	if previous, ok := old.(*unstructured.Unstructured); ok {
		before = previous.Object
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(now.Object, before, &model.Structural{Structural: r.schema})))
	}
	var found field.ErrorList
	isFirst := true
	isWithin := schemacost.BudgetOf(ctx).Spend(func(left int64) (rest int64) {
		isFirst = left == schemacost.MaxRuleCost
		if before == nil {
			found, rest = r.validator.Validate(ctx, nil, r.schema, now.Object, nil, left, options...)
		} else {
			found, rest = r.validator.Validate(ctx, nil, r.schema, now.Object, before, left, options...)
		}
		return rest
	})
	switch {
	case ctx.Err() != nil:
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("validate an object of CRD %q: %w", crd, ctx.Err()))}
	case !isWithin && old != nil && sameContent(o, old): // rules see nothing of the metadata that can change
		return errs
	case !isWithin && !isFirst: // the library says it of the first attempt
		found = append(found, field.Forbidden(nil, fmt.Sprintf("the rules (x-kubernetes-validations) of CRD %q cost more than the %d that one request may use: "+
			"give the object fewer items, or the rules fewer loops within each other", crd, schemacost.MaxRuleCost)))
	}
	return append(errs, found...)
}

// isBlocking reports whether rules are not evaluated because of an error, as in the library.
func isBlocking(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// withoutRules is a schema without x-kubernetes-validations. It shares all else.
func withoutRules(s *structuralschema.Structural) *structuralschema.Structural {
	if s == nil {
		return nil
	}
	out := *s
	out.XValidations = nil
	out.Items = withoutRules(s.Items)
	if a := s.AdditionalProperties; a != nil {
		out.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: withoutRules(a.Structural), Bool: a.Bool}
	}
	if s.Properties != nil {
		out.Properties = make(map[string]structuralschema.Structural, len(s.Properties))
		for name, property := range s.Properties {
			out.Properties[name] = *withoutRules(&property)
		}
	}
	if v := s.ValueValidation; v != nil {
		values := valuesWithoutRules(*v)
		out.ValueValidation = &values
	}
	return &out
}

func valuesWithoutRules(v structuralschema.ValueValidation) structuralschema.ValueValidation {
	all := func(nested []structuralschema.NestedValueValidation) (out []structuralschema.NestedValueValidation) {
		for i := range nested {
			out = append(out, *nestedWithoutRules(&nested[i]))
		}
		return out
	}
	v.AllOf, v.AnyOf, v.OneOf, v.Not = all(v.AllOf), all(v.AnyOf), all(v.OneOf), nestedWithoutRules(v.Not)
	return v
}

func nestedWithoutRules(n *structuralschema.NestedValueValidation) *structuralschema.NestedValueValidation {
	if n == nil {
		return nil
	}
	out := *n
	out.XValidations, out.ValueValidation = nil, valuesWithoutRules(n.ValueValidation)
	out.Items, out.AdditionalProperties = nestedWithoutRules(n.Items), nestedWithoutRules(n.AdditionalProperties)
	if n.Properties != nil {
		out.Properties = make(map[string]structuralschema.NestedValueValidation, len(n.Properties))
		for name, property := range n.Properties {
			out.Properties[name] = *nestedWithoutRules(&property)
		}
	}
	return &out
}

// sameContent reports whether objects differ by their metadata alone.
func sameContent(a, b runtime.Object) bool {
	one, ok := a.(*unstructured.Unstructured)
	other, ok2 := b.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return false
	}
	strip := func(u *unstructured.Unstructured) map[string]any {
		content := maps.Clone(u.Object)
		delete(content, "metadata")
		return content
	}
	return equality.Semantic.DeepEqual(strip(one), strip(other))
}
