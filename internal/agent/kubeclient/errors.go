package kubeclient

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// The resources that the agent itself needs.
var (
	Namespaces = Place{Resource: key.Namespaces, Version: "v1"}
	CRDs       = Place{Resource: key.CRDs, Version: "v1"}
)

// StatusOf returns the Status in an error; nil if the target did not answer.
func StatusOf(err error) *metav1.Status {
	var s *apierrors.StatusError
	if !errors.As(err, &s) {
		return nil
	}
	return &s.ErrStatus
}

// Unavailable reports whether the error concerns the target, not the object: the target did
// not respond, or responded that it cannot serve requests now.
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

// MissingKind reports whether the target does not serve the resource.
func MissingKind(err error) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && (s.Details == nil || s.Details.Name == "")
}

// MissingObject reports whether the target serves the resource and has no such object.
func MissingObject(err error, id key.Identity) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && s.Details != nil && s.Details.Name == id.Name &&
		!MissingNamespace(err, id)
}

// MissingNamespace reports whether the object's namespace does not exist.
func MissingNamespace(err error, id key.Identity) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusNotFound && id.Namespace != "" &&
		s.Details != nil && s.Details.Kind == key.Namespaces.Resource && s.Details.Name == id.Namespace
}

// terminatingNamespace reports whether the object's namespace is being deleted.
func terminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// PreconditionFailed reports whether the object does not meet the precondition of the request:
// it has another UID or resourceVersion, or exists already.
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

// RetryAfter returns the time that the target asks the client to wait before the next request.
func RetryAfter(err error) time.Duration {
	if s := StatusOf(err); s != nil && s.Details != nil {
		return time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	return 0
}

// Refusal returns the state, reason and message to report for an error of the target.
func Refusal(err error) (wire.State, string, string) {
	s := StatusOf(err)
	if s == nil {
		return wire.Waiting, v1alpha1.ReasonTargetUnavailable, wire.Brief(Cause(err))
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

// streamNumber matches the stream ID in an error of HTTP/2.
var streamNumber = regexp.MustCompile(`stream ID \d+; `)

// Cause returns the text of an error without the parts that differ each time: local ports, stream
// IDs, and the query of a request. So a report with this text changes only when the cause changes.
func Cause(err error) string {
	text := err.Error()
	if request := (*url.Error)(nil); errors.As(err, &request) {
		text = request.Err.Error()
	}
	if network := (*net.OpError)(nil); errors.As(err, &network) {
		text = fmt.Sprintf("%s %s %s: %v", network.Op, network.Net, network.Addr, network.Err)
	}
	return streamNumber.ReplaceAllString(text, "")
}

// unknownField reports whether the target rejected an object for a field that its schema does
// not have. Server-side apply and strict decoding use different messages.
func unknownField(message string) bool {
	return strings.Contains(message, "field not declared in schema") || strings.Contains(message, `unknown field "`)
}

// Expired reports whether a watch cannot resume from its revision.
func Expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
