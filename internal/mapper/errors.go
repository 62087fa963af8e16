package mapper

import (
	"errors"
	"net/http"
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

var (
	namespacesPlace = place{Resource: key.Namespaces, version: "v1"}
	crdPlace        = place{Resource: key.CRDs, version: "v1"}
)

// statusOf is the Status in an error; nil if the target did not answer with one.
func statusOf(err error) *metav1.Status {
	var s *apierrors.StatusError
	if !errors.As(err, &s) {
		return nil
	}
	return &s.ErrStatus
}

// unavailable says that the target, not the object, is what is wrong: it did not
// answer, or it answered that it can't work now.
func unavailable(err error) bool {
	s := statusOf(err)
	if s == nil {
		return !errors.Is(err, errAnswer)
	}
	switch s.Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// missingKind says that the target does not serve the resource.
func missingKind(err error) bool {
	s := statusOf(err)
	return s != nil && s.Code == http.StatusNotFound && (s.Details == nil || s.Details.Name == "")
}

// missingObject says that the target serves the resource and has no such object.
func missingObject(err error, id key.Identity) bool {
	s := statusOf(err)
	return s != nil && s.Code == http.StatusNotFound && s.Details != nil && s.Details.Name == id.Name &&
		!missingNamespace(err, id)
}

// missingNamespace says that the object's namespace does not exist.
func missingNamespace(err error, id key.Identity) bool {
	s := statusOf(err)
	return s != nil && s.Code == http.StatusNotFound && id.Namespace != "" &&
		s.Details != nil && s.Details.Kind == key.Namespaces.Resource && s.Details.Name == id.Namespace
}

// terminatingNamespace says that the object's namespace is being deleted.
func terminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// preconditionFailed says that the object is not, or no longer, the one that
// the request was about.
func preconditionFailed(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	s := statusOf(err)
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

// retryAfter is how long the target asked to be left alone.
func retryAfter(err error) time.Duration {
	if s := statusOf(err); s != nil && s.Details != nil {
		return time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	return 0
}

// refusal is what a report says of an error of the target.
func refusal(err error) (wire.State, string, string) {
	s := statusOf(err)
	if s == nil {
		return wire.Waiting, v1alpha1.ReasonTargetUnavailable, wire.Brief(err.Error())
	}
	switch {
	case missingKind(err):
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
