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

// CheckTypes says what of a rule, which Check has nothing against, can't be right for the
// objects of a kind, by its schema: paths and expressions that name fields that there are
// not, and values of another type. What the schema does not say is right.
func (e *Engine) CheckTypes(of v1alpha1.Rule, kind *openapi.Schema, at *field.Path) *field.Error {
	r, bad := e.rule(0, of)
	if bad != nil {
		return nil //nolint:nilerr // Check says it
	}
	target, err := schemaAt(kind, r.path.segments)
	if err != nil {
		return field.Invalid(at.Child("path"), of.Path, err.Error())
	}
	takes := target
	if r.path.appends {
		if target != nil && target.Type != "array" {
			return field.Invalid(at.Child("path"), of.Path, fmt.Sprintf("appends to %s, which is no list", typecheck.NameOf(target)))
		}
		takes = itemsOf(target)
	}
	switch {
	case of.Value != nil:
		if err := fits(r.value, takes, ""); err != nil {
			return field.Invalid(at.Child("value"), string(of.Value.Raw), err.Error())
		}
	case of.Expression != "":
		gives, err := e.language.checker.Check(of.Expression, typecheck.Variables{{Name: varObject, Schema: kind}, {Name: varSelf, Schema: target}})
		if err == nil {
			err = typecheck.Gives(gives, takes)
		}
		if err != nil {
			return field.Invalid(at.Child("expression"), of.Expression, err.Error())
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

// schemaAt is the schema at a path; it fails if it leads to a field that there is not.
func schemaAt(s *openapi.Schema, segments []*spec.Segment) (*openapi.Schema, error) {
	for _, segment := range segments {
		if s == nil {
			return nil, nil
		}
		switch by := segment.Selectors()[0].(type) {
		case spec.Name:
			if s.Type != "object" {
				return nil, fmt.Errorf("field %q is of %s, not of an object", string(by), typecheck.NameOf(s))
			}
			below, ok := s.Field(string(by))
			if !ok {
				return nil, typecheck.NoField(s, string(by))
			}
			s = below
		case spec.Index:
			if s.Type != "array" {
				return nil, fmt.Errorf("element %d is of %s, not of a list", int(by), typecheck.NameOf(s))
			}
			s = s.Items
		default: // all or some of the elements or fields
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

// fits fails if a value, as expression.Decode gives it, can't be where a schema is, at a place below.
func fits(v any, s *openapi.Schema, at string) error {
	if s == nil || s.Type == "" || v == nil {
		return nil
	}
	if is := typeOf(v); is != s.Type && (is != "number" || s.Type != "integer") {
		return fmt.Errorf("%sis %s, where %s belongs", at, kindOf(v), typecheck.NameOf(s))
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

// typeOf is the type of a value in a schema; a number may be an integer.
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
