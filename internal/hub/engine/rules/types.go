package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/theory/jsonpath/spec"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression/typecheck"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// CheckTypes checks a rule, which must be valid by Check, against the schema of a kind. It returns
// an error for paths and expressions with unknown fields, and for values of another type. Where the
// schema is open, everything is valid.
func (e *Engine) CheckTypes(rule v1alpha1.Rule, kind *openapi.Schema, fieldPath *field.Path) *field.Error {
	r, bad := e.rule(0, rule)
	if bad != nil {
		return nil //nolint:nilerr // Check returns the error
	}
	target, err := schemaAt(kind, r.path.segments)
	if err != nil {
		return field.Invalid(fieldPath.Child("path"), rule.Path, err.Error())
	}
	expected := target
	if r.path.appends {
		if target != nil && target.Type != "array" {
			return field.Invalid(fieldPath.Child("path"), rule.Path, fmt.Sprintf("appends to %s, which is no list", typecheck.NameOf(target)))
		}
		expected = itemsOf(target)
	}
	switch {
	case rule.Value != nil:
		if err := fits(r.value, expected, ""); err != nil {
			return field.Invalid(fieldPath.Child("value"), string(rule.Value.Raw), err.Error())
		}
	case rule.Expression != "":
		result, err := e.language.checker.Check(rule.Expression, typecheck.Variables{{Name: varObject, Schema: kind}, {Name: varSelf, Schema: target}})
		if err == nil {
			err = typecheck.CheckResult(result, expected)
		}
		if err != nil {
			return field.Invalid(fieldPath.Child("expression"), rule.Expression, err.Error())
		}
	}
	return nil
}

func itemsOf(s *openapi.Schema) *openapi.Schema {
	if s == nil {
		return nil
	}
	return s.Items
}

// schemaAt returns the schema at a path; it fails if the path selects an unknown field.
func schemaAt(s *openapi.Schema, segments []*spec.Segment) (*openapi.Schema, error) {
	for _, segment := range segments {
		if s == nil {
			return nil, nil
		}
		switch selector := segment.Selectors()[0].(type) {
		case spec.Name:
			if s.Type != "object" {
				return nil, fmt.Errorf("field %q is of %s, not of an object", string(selector), typecheck.NameOf(s))
			}
			below, ok := s.Field(string(selector))
			if !ok {
				return nil, typecheck.NoField(s, string(selector))
			}
			s = below
		case spec.Index:
			if s.Type != "array" {
				return nil, fmt.Errorf("element %d is of %s, not of a list", int(selector), typecheck.NameOf(s))
			}
			s = s.Items
		default: // all or some elements or fields
			switch s.Type {
			case "array":
				s = s.Items
			case "object":
				s = s.Values
			default:
				return nil, fmt.Errorf("%s has neither elements nor fields", typecheck.NameOf(s))
			}
		}
	}
	return s, nil
}

// fits returns an error if a value, in the form of expression.Decode, does not match a schema.
func fits(v any, s *openapi.Schema, place string) error {
	if s == nil || s.Type == "" || v == nil {
		return nil
	}
	if is := typeOf(v); is != s.Type && (is != "number" || s.Type != "integer") {
		return fmt.Errorf("%sis %s, where %s belongs", place, kindOf(v), typecheck.NameOf(s))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below, ok := s.Field(name)
			if !ok {
				return typecheck.NoField(s, name)
			}
			if err := fits(v[name], below, fmt.Sprintf("%q ", name)); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := fits(e, s.Items, fmt.Sprintf("element %d ", i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeOf returns the type of a value in a schema; a number may be an integer.
func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	}
	return "number"
}
