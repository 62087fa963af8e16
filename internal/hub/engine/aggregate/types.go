package aggregate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression/typecheck"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// Part is an expression of a spec.
type Part struct {
	Source string
	at     *field.Path
	uses   Uses
	fits   func(family) error
}

// Parts are the expressions of a spec, of those that can be used, whose types follow from the
// schemas of objects.
func (l *Language) Parts(spec *v1alpha1.SummarySpec, at *field.Path) (parts []Part) {
	_, all, _ := l.compileParts(spec, at)
	for _, p := range all {
		if p.uses.Object || p.uses.Status {
			parts = append(parts, p)
		}
	}
	return parts
}

// CheckTypes says what of an expression can't be right for the objects of a kind, by its
// schema: fields that there are not, and values of another type. What the schema does not
// say is right.
func (l *Language) CheckTypes(p Part, kind *openapi.Schema) *field.Error {
	var status *openapi.Schema
	if kind != nil {
		status, _ = kind.Field("status")
	}
	gives, err := l.checker.Check(p.Source, typecheck.Variables{{Name: varObject, Schema: kind}, {Name: varStatus, Schema: status}})
	if err == nil && gives != nil {
		err = p.fits(familyOf(gives))
	}
	if err != nil {
		return field.Invalid(p.at, p.Source, err.Error())
	}
	return nil
}
