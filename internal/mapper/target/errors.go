package target

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// metav1GroupResource names no resource: an answer that is not a Status says of none.
var metav1GroupResource = schema.GroupResource{}

// Places of kinds that the agent itself asks for.
var (
	Namespaces = Place{Resource: key.Namespaces, Version: "v1"}
	CRDs       = Place{Resource: key.CRDs, Version: "v1"}
)

// StatusOf is the Status in an error; nil if the target did not answer with one.
func StatusOf(err error) *metav1.Status {
	var s *apierrors.StatusError
	if !errors.As(err, &s) {
		return nil
	}
	return &s.ErrStatus
}

// Unavailable says that the target, not the object, is what is wrong: it did not
// answer, or it answered that it can't work now.
func Unavailable(err error) bool {
	s := StatusOf(err)
	if s == nil {
		return !errors.Is(err, ErrAnswer)
	}
	switch s.Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// MissingKind says that the target does not serve the resource.
func MissingKind(err error) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && (s.Details == nil || s.Details.Name == "")
}

// MissingObject says that the target serves the resource and has no such object.
func MissingObject(err error, id key.Identity) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && s.Details != nil && s.Details.Name == id.Name &&
		!MissingNamespace(err, id)
}

// MissingNamespace says that the object's namespace does not exist.
func MissingNamespace(err error, id key.Identity) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && id.Namespace != "" &&
		s.Details != nil && s.Details.Kind == key.Namespaces.Resource && s.Details.Name == id.Namespace
}

// terminatingNamespace says that the object's namespace is being deleted.
func terminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// PreconditionFailed says that the object is not, or no longer, the one that
// the request was about.
func PreconditionFailed(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	s := StatusOf(err)
	if s == nil || s.Reason != metav1.StatusReasonInvalid || s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// RetryAfter is how long the target asked to be left alone.
func RetryAfter(err error) time.Duration {
	if s := StatusOf(err); s != nil && s.Details != nil {
		return time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	return 0
}

// Refusal is what a report says of an error of the target.
func Refusal(err error) (wire.State, string, string) {
	s := StatusOf(err)
	if s == nil {
		return wire.Waiting, v1alpha1.ReasonTargetUnavailable, wire.Brief(err.Error())
	}
	switch {
	case MissingKind(err):
		return wire.Unsupported, v1alpha1.ReasonNoSuchResource, wire.Brief(s.Message)
	case terminatingNamespace(err):
		return wire.Waiting, v1alpha1.ReasonNamespaceTerminating, wire.Brief(s.Message)
	case unknownField(s.Message):
		return wire.Failed, v1alpha1.ReasonUnknownField, wire.Brief(s.Message)
	}
	reason := string(s.Reason)
	if reason == "" {
		reason = v1alpha1.ReasonRefused
	}
	return wire.Failed, reason, wire.Brief(s.Message)
}

// unknownField says that the target refused an object for a field that its
// schema does not have; the message names it. It is said in two ways: by the
// schema that applies merge by, and by strict decoding.
func unknownField(message string) bool {
	return strings.Contains(message, "field not declared in schema") || strings.Contains(message, `unknown field "`)
}

// saysImmutable is how API servers say that a field can't change: the one
// message of API machinery, and what validations of kinds say of their own.
var saysImmutable = regexp.MustCompile(
	`(?i)immutable|once (set|created)|may not (change|be changed)|cannot (change|be changed|be updated)|updates? to .* (is|are) forbidden`)

// Immutable says that the target refused a change, not the object: some field
// can't change once it is set.
func Immutable(err error) bool {
	s := StatusOf(err)
	if s == nil || s.Reason != metav1.StatusReasonInvalid || s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if saysImmutable.MatchString(c.Message) {
			return true
		}
	}
	return false
}

// Expired says that a watch cannot go on from its revision.
func Expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
