// Package schemacompat compares definitions of one resource by several spaces: whether two definitions
// contradict each other, and whether an object of one space is valid by the definition of another, as a
// Kubernetes API server validates it. It does not merge definitions.
//
// Its functions are pure, and cost at most as much as one write of the object or one decoding of the
// definition. They must not depend on spaces, locations, or the user of a request.
package schemacompat

import (
	"fmt"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// maxText is the maximum size in bytes of the field, and of the detail, of a MisfitError.
const maxText = 256

// MisfitError describes why an object, or a definition, is incompatible with a definition of another
// space.
type MisfitError struct {
	// Field is the first incompatible field; Detail is the reason.
	Field, Detail string
	// Definitions reports whether the definitions contradict each other; otherwise an object is
	// invalid by the other definition.
	Definitions bool
}

var _ error = (*MisfitError)(nil)

func misfit(field, detail string, args ...any) *MisfitError {
	return &MisfitError{Field: shorten(field), Detail: shorten(fmt.Sprintf(detail, args...))}
}

// Error returns the message for users.
func (m *MisfitError) Error() string {
	prefix := "it is invalid by another space's definition, which the location uses: "
	if m.Definitions {
		prefix = "it contradicts another space's definition, which the location uses: "
	}
	return prefix + m.Field + ": " + m.Detail
}

// Reason returns the reason of the object state.
func (m *MisfitError) Reason() string { return v1alpha1.ReasonDefinedOtherwise }

// FailedRule returns no rule, since no Customizer causes the error.
func (m *MisfitError) FailedRule() (customizer string, rule int) { return "", 0 }

// shorten cuts a text to maxText bytes.
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
