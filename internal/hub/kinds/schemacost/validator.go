package schemacost

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// MaxErrors is after how many errors a validation ends.
const MaxErrors = 100

// errMore is the last error of a validation that ended early.
var errMore = fmt.Errorf("there are more errors: the first %d are shown", MaxErrors)

// Validator validates values as Kubernetes does, and ends after MaxErrors: the library compares
// each error that it finds with all that it has found. It is safe for concurrent use.
type Validator struct{ schema *spec.Schema }

var _ validation.SchemaValidator = Validator{}

// NewValidator makes the validator of a schema; nil: everything is right.
func NewValidator(props *apiextensions.JSONSchemaProps) (Validator, error) {
	_, schema, err := validation.NewSchemaValidator(props)
	if err != nil {
		return Validator{}, fmt.Errorf("convert schema: %w", err)
	}
	return Validator{schema}, nil
}

// Validate validates a new value.
func (v Validator) Validate(value any, _ ...validation.ValidationOption) *validate.Result {
	return v.run(value, nil)
}

// ValidateUpdate validates a changed value. With ratcheting, errors of parts that did not change
// are warnings.
func (v Validator) ValidateUpdate(value, old any, options ...validation.ValidationOption) *validate.Result {
	o := validation.NewValidationOptions(options...)
	if !o.Ratcheting {
		return v.run(value, nil)
	}
	if o.CorrelatedObject == nil {
		o.CorrelatedObject = common.NewCorrelatedObject(value, old, &celopenapi.Schema{Schema: v.schema})
	}
	return v.run(o.CorrelatedObject.Value, o.CorrelatedObject)
}

func (v Validator) run(value any, old *common.CorrelatedObject) *validate.Result {
	found := 0
	p := place{found: &found, schema: v.schema, formats: strfmt.Default, old: old}
	result := p.Validate(value)
	if found >= MaxErrors {
		result.AddErrors(errMore)
	}
	return result
}

// errorBytes is how many bytes of an error count as one: that of an enum names all its values.
const errorBytes = 1 << 10

// place is a place in a value that is validated. The library does not hand options down, so each
// place makes the validators of those below itself.
type place struct {
	// found is how many errors there are so far. All places of a validation share it.
	found   *int
	schema  *spec.Schema
	root    any
	path    string
	formats strfmt.Registry
	// old is the place in the old value; nil: there is none, or it does not count.
	old *common.CorrelatedObject
}

var _ validate.ValueValidator = place{}

// SetPath implements validate.ValueValidator.
func (p place) SetPath(string) {}

// Applies implements validate.ValueValidator.
func (p place) Applies(any, reflect.Kind) bool { return true }

// Validate implements validate.ValueValidator.
func (p place) Validate(value any) *validate.Result {
	before := *p.found
	if before >= MaxErrors {
		return &validate.Result{}
	}
	result := validate.NewSchemaValidator(p.schema, p.root, p.path, p.formats, p.below).Validate(value)
	if !result.IsValid() && p.old != nil && p.old.CachedDeepEqual() {
		warned := &validate.Result{}
		warned.MergeAsWarnings(result)
		result = warned
	}
	*p.found = before
	for _, err := range result.Errors {
		*p.found += 1 + len(err.Error())/errorBytes
	}
	return result
}

// below has the library validate what is below a place by places.
func (p place) below(options *validate.SchemaValidatorOptions) {
	options.NewValidatorForField = func(name string, schema *spec.Schema, root any, path string, formats strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		field := place{found: p.found, schema: schema, root: root, path: path, formats: formats}
		// A change of the version can't be seen: old and new were converted to the same one.
		if isVersion := p.path == "" && (name == "kind" || name == "apiVersion"); p.old != nil && !isVersion {
			field.old = p.old.Key(name)
		}
		return field
	}
	options.NewValidatorForIndex = func(index int, schema *spec.Schema, root any, path string, formats strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		item := place{found: p.found, schema: schema, root: root, path: path, formats: formats}
		if p.old != nil {
			item.old = p.old.Index(index)
		}
		return item
	}
}

// IsCut reports whether errors are not all that there are, and which of them are errors of the value.
func IsCut(errs field.ErrorList) (all field.ErrorList, isCut bool) {
	all = slices.DeleteFunc(slices.Clone(errs), func(e *field.Error) bool { return e.Detail == errMore.Error() })
	return all, len(all) < len(errs)
}

// Child is a value in another one, with its validator.
type Child struct {
	Path      *field.Path
	Value     any
	Validator Validator
}

// Children yields the values that are right below a value at a path, in the order of their names or indices, so
// that it does not vary which error is found first. Values without a schema are left out.
func (v Validator) Children(path *field.Path, value any) iter.Seq[Child] {
	return func(yield func(Child) bool) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				if below := v.property(name); below != nil && !yield(Child{path.Child(name), value[name], Validator{below}}) {
					return
				}
			}
		case []any:
			if v.schema.Items == nil || v.schema.Items.Schema == nil {
				return
			}
			for i := range value {
				if !yield(Child{path.Index(i), value[i], Validator{v.schema.Items.Schema}}) {
					return
				}
			}
		}
	}
}

// IsPlain reports whether the errors of a value itself, without those of its parts, are found in an order that
// does not vary: it has no schemas that are combined.
func (v Validator) IsPlain() bool {
	return len(v.schema.AllOf)+len(v.schema.AnyOf)+len(v.schema.OneOf) == 0 && v.schema.Not == nil
}

func (v Validator) property(name string) *spec.Schema {
	if s, ok := v.schema.Properties[name]; ok {
		return &s
	}
	if a := v.schema.AdditionalProperties; a != nil {
		return a.Schema
	}
	return nil
}
