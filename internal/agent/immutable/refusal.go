package immutable

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// webhookPrefix begins the message of a refusal by an admission webhook, which may have any
// reason and causes.
const webhookPrefix = "admission webhook "

// immutableMessage matches the messages by which API servers refuse to change a field: that
// of the API machinery, and those of the kinds' own validation.
var immutableMessage = regexp.MustCompile(
	`(?i)immutable|oldSelf|once (set|created)|may not (change|be changed)|cannot (change|be changed|be updated)|updates? to .* (is|are) forbidden`)

// Refused reports whether an API server's own validation refused an object because an
// immutable field would change. An admission policy names no field, and the message of a webhook
// begins with its name. The status may be nil.
func Refused(s *metav1.Status) bool {
	return isValidation(s) && slices.ContainsFunc(s.Details.Causes, isImmutable)
}

func isValidation(s *metav1.Status) bool {
	return s != nil && s.Reason == metav1.StatusReasonInvalid && s.Details != nil && !strings.HasPrefix(s.Message, webhookPrefix)
}

// OnlyAllocated reports whether an API server refused an object only for addresses or ports that
// another object has.
func OnlyAllocated(s *metav1.Status) bool {
	if !isValidation(s) || len(s.Details.Causes) == 0 {
		return false
	}
	for _, c := range s.Details.Causes {
		if !strings.HasPrefix(c.Field, "spec.") || !strings.Contains(c.Message, "already allocated") {
			return false
		}
	}
	return true
}

// InvalidFields returns the paths of the fields for which an API server refused an object as invalid,
// as it writes them, without those that would change though they are immutable. It returns nil if the
// refusal has another reason. The status may be nil.
func InvalidFields(s *metav1.Status) (paths []string) {
	if !isValidation(s) {
		return nil
	}
	for _, c := range s.Details.Causes {
		if c.Field != "" && !isImmutable(c) {
			paths = append(paths, c.Field)
		}
	}
	return paths
}

func isImmutable(c metav1.StatusCause) bool {
	return c.Field != "" && immutableMessage.MatchString(c.Message)
}

// Known returns the immutable fields for which an API server refused an object of the
// resource. other is a cause that is not about such a field, or about one that is not known
// to be immutable; empty: there is none. definition is the JSON of the
// CustomResourceDefinition, empty for built-in kinds.
func Known(s *metav1.Status, r key.Resource, version, definition string) (fields []Field, other string) {
	if !isValidation(s) || len(s.Details.Causes) == 0 {
		return nil, messageOf(s)
	}
	for _, c := range s.Details.Causes {
		f, ok := builtin(r, c.Field)
		if !ok && definition != "" {
			f, ok = declared(definition, version, c.Field)
		}
		if !ok || !isImmutable(c) {
			return nil, c.Field + ": " + c.Message
		}
		fields = append(fields, f)
	}
	return fields, ""
}

func messageOf(s *metav1.Status) string {
	if s == nil {
		return "no reason is given"
	}
	return s.Message
}
