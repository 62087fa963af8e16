package aggregate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression/typecheck"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// Expression is one of the expressions of a spec.
type Expression struct {
	Source string
	path   *field.Path
	uses   Uses
	fits   func(family) error
	scope  scope
}

// Expressions returns the valid expressions of a spec whose types depend on the schemas of objects.
func (l *Language) Expressions(spec *v1alpha1.SummarySpec, path *field.Path) (used []Expression) {
	_, all, _ := l.compileParts(spec, path)
	for _, p := range all {
		if p.uses.Object || p.uses.Status {
			used = append(used, p)
		}
	}
	return used
}

// CheckTypes checks an expression against the schema of a kind. It returns an error for unknown
// fields and values of another type. Where the schema is open, everything is valid.
func (l *Language) CheckTypes(p Expression, kind *openapi.Schema) *field.Error {
	var status *openapi.Schema
	if kind != nil {
		status, _ = kind.Field("status")
	}
	resultType, err := l.checkers[p.scope].Check(p.Source, typecheck.Variables{{Name: varObject, Schema: kind}, {Name: varStatus, Schema: status}})
	if err == nil && resultType != nil {
		err = p.fits(familyOf(resultType))
	}
	if err != nil {
		return field.Invalid(p.path, p.Source, err.Error())
	}
	return nil
}
