// Package schemacompat compares definitions of one resource that meet at one place: whether two of
// them contradict each other, and whether an object that was written by one is right by
// another as a Kubernetes API server has it. It makes no third definition of two.
//
// It is pure, and costs at most as much as one write of the object, or one reading of the
// definition, would. It must never know spaces, locations, or who asks.
package schemacompat

import (
	"fmt"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// maxText bounds a field and a detail of what is said, in bytes each.
const maxText = 256

// MisfitError says why an object, or a definition, is not right where another definition is.
type MisfitError struct {
	// Field is the first field that is not right; Detail says why.
	Field, Detail string
	// Definitions says that the definitions contradict each other; otherwise an object does
	// not fit.
	Definitions bool
}

var _ error = (*MisfitError)(nil)

func misfit(field, detail string, args ...any) *MisfitError {
	return &MisfitError{Field: shorten(field), Detail: shorten(fmt.Sprintf(detail, args...))}
}

// Error is for people.
func (m *MisfitError) Error() string {
	of := "it does not fit another space's definition, which the location has: "
	if m.Definitions {
		of = "it contradicts another space's definition, which the location has: "
	}
	return of + m.Field + ": " + m.Detail
}

// Reason is the reason of states for it.
func (m *MisfitError) Reason() string { return v1alpha1.ReasonDefinedOtherwise }

// FailedRule is the rule to blame: none.
func (m *MisfitError) FailedRule() (customizer string, rule int) { return "", 0 }

// shorten makes a text no longer than maxText.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// namesOf are the names by which a definition is known besides its plural, as they are if
// they are not given.
func namesOf(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionNames {
	n := crd.Spec.Names
	if n.ListKind == "" {
		n.ListKind = n.Kind + "List"
	}
	if n.Singular == "" {
		n.Singular = strings.ToLower(n.Kind)
	}
	return n
}
