package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mostErrors is the maximum number of distinct errors that a failure lists, and mostText the
	// maximum number of bytes of each.
	mostErrors, mostText = 10, 500
)

// attempts has the errors of repeated attempts, in the order in which each was last returned.
type attempts struct {
	start   time.Time
	count   int
	dropped int
	errors  []attemptError
}

type attemptError struct {
	text        string
	count       int
	first, last time.Duration // since the first error
}

// add records the result of an attempt at a time.
func (l *attempts) add(err error, now time.Time) {
	if l.count == 0 {
		l.start = now
	}
	l.count++
	if err == nil {
		return
	}
	text, since := shorten(err.Error()), now.Sub(l.start)
	seen := attemptError{text: text, first: since}
	if i := slices.IndexFunc(l.errors, func(e attemptError) bool { return e.text == text }); i >= 0 {
		seen = l.errors[i]
		l.errors = slices.Delete(l.errors, i, i+1)
	}
	seen.count++
	seen.last = since
	l.errors = append(l.errors, seen)
	if len(l.errors) > mostErrors {
		l.errors = slices.Delete(l.errors, 1, 2) // the first error often shows the cause
		l.dropped++
	}
}

// String lists the errors, the oldest first. It is empty after a single attempt.
func (l *attempts) String() string {
	if l.count < 2 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d attempts:", l.count)
	for i, e := range l.errors {
		if i == 1 && l.dropped > 0 {
			fmt.Fprintf(&b, "\n- %d other errors", l.dropped)
		}
		fmt.Fprintf(&b, "\n- %d times from %s to %s: %s", e.count, e.first.Round(time.Millisecond), e.last.Round(time.Millisecond),
			strings.ReplaceAll(e.text, "\n", "\n  "))
	}
	return b.String()
}

func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "…"
}

// unanswered reports whether err shows no state of the object in question, because the request had no
// answer or the server was too busy. Of joined errors, all must show no state. It checks types, not
// texts, so that it is false for an error that a test makes from an answer. For the output of commands
// see CommandError.
func unanswered(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !unanswered(err) })
	}
	if err == context.DeadlineExceeded { //nolint:errorlint // see above
		return true
	}
	switch e := err.(type) { //nolint:errorlint // see above
	case *CommandError:
		return e.unanswered()
	case apierrors.APIStatus:
		return busy(e.Status())
	case *url.Error, *net.OpError:
		return true
	}
	inner := errors.Unwrap(err)
	return inner != nil && unanswered(inner)
}

// busy reports whether a status means that the server was too busy to process the request.
func busy(s metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonTooManyRequests, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable:
		return true
	case metav1.StatusReasonInternalError:
		return slices.ContainsFunc(busyTexts, func(text string) bool { return strings.Contains(s.Message, text) })
	}
	return s.Code == http.StatusTooManyRequests || s.Code > http.StatusNotImplemented
}

var (
	// busyTexts are in errors of API servers whose etcd or own deadline was too slow.
	busyTexts = []string{"etcdserver: request timed out", "etcdserver: leader changed", "etcdserver: too many requests", "context deadline exceeded"}
	// unreachedTexts are in the output of kubectl and orrery if a server did not answer or was busy.
	unreachedTexts = append([]string{
		"Unable to connect to the server", "The connection to the server ", "connection refused", "connection reset by peer",
		"TLS handshake timeout", "Client.Timeout", "http2: client connection lost", "unexpected EOF",
		"(TooManyRequests)", "(Timeout)", "(ServerTimeout)", "(ServiceUnavailable)", "(GatewayTimeout)",
	}, busyTexts...)
)

// CommandError is the failure of a command that ran to its end.
type CommandError struct {
	// Command is the command line, Stderr its standard error.
	Command, Stderr string
	Err             error
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v\n%s", e.Command, e.Err, e.Stderr) }

func (e *CommandError) Unwrap() error { return e.Err }

// unanswered reports whether the command failed because a server did not answer or was busy.
func (e *CommandError) unanswered() bool {
	return slices.ContainsFunc(unreachedTexts, func(text string) bool { return strings.Contains(e.Stderr, text) })
}
