package reconcile

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/wire"
)

// quietTries is how often in a row a request about an object fails before its report shows an error that
// may be about the target as a whole. Until then a probe has found out.
const quietTries = 3

// refusals turns errors of the target into outcomes.
type refusals struct {
	// gate is notified of errors that may be about the target as a whole.
	gate *observe.Gate
}

// outcome returns the outcome of an error of the target. An error that is not about the object
// leaves its report as it is.
func (r refusals) outcome(t *turn, err error) outcome {
	o := outcome{record: t.record, failed: true}
	switch {
	case errors.Is(err, errOutdated): // the next turn is about the present entry
		o.keep, o.failed, o.outdated, o.Retry = true, false, true, 1
		return o
	case errors.Is(err, errDependency):
		o.keep, o.failed, o.homeless, o.untried, o.Retry = true, false, true, true, dependencyRetry
		return o
	case errors.Is(err, hubclient.ErrPending):
		o.keep, o.failed, o.homeless, o.Retry = true, false, true, pendingRetry
		return o
	case errors.Is(err, errNamespace), errors.Is(err, errShared), errors.Is(err, hubclient.ErrUnanswered):
		return homelessBy(t, err)
	case errors.Is(err, kubeclient.ErrReadOnly): // the halt began during the turn, and the next one reports it
		o.keep, o.failed, o.Withheld, o.Retry = true, false, true, refusedRetry
		return o
	case errors.Is(err, fields.ErrMalformed):
		o.State, o.Reason, o.Message = wire.Failed, v1alpha1.ReasonMalformed, wire.Brief(err.Error())
		return o
	case errors.Is(err, fields.ErrCannotRelease):
		o.State, o.Reason, o.Message = wire.Failed, v1alpha1.ReasonCannotRelease, wire.Brief(err.Error())
		o.Retry = retry.Backoff(t.view.Failures, refusedRetry, maxRetry)
		return o
	}
	if t.endedVersion(err) {
		return t.withoutVersion()
	}
	if errors.Is(err, errUnsettled) { // it is about the object alone
		o.State, o.Reason, o.Message = wire.Failed, string(metav1.StatusReasonConflict), wire.Brief(err.Error())
		o.keep, o.Retry = t.view.Failures < quietTries, retry.Backoff(t.view.Failures, refusedRetry, maxRetry)
		return o
	}
	r.gate.Trouble(err)
	// Of a blind kind, the kind may be what fails.
	passing := kubeclient.Busy(err) || t.view.Failures < quietTries
	if kubeclient.Unavailable(err) && t.view.Seen.Existence != decide.Blind && passing {
		o.keep, o.Retry = true, max(retry.Backoff(t.view.Failures, retry.First, maxRetry), kubeclient.RetryAfter(err))
		return o
	}
	o.State, o.Reason, o.Message = kubeclient.Refusal(err)
	o.Message = explained(o.Message, err)
	if t.winner < 0 {
		o.State = wire.Removing
	}
	o.Retry = max(retry.Backoff(t.view.Failures, refusedRetry, maxRetry), kubeclient.RetryAfter(err))
	return o
}

// homelessBy is the outcome of a turn of an object whose Namespace is missing and is not to be created without its
// labels.
func homelessBy(t *turn, err error) outcome {
	o := outcome{record: t.record, homeless: true}
	o.State, o.Reason, o.Retry = wire.Waiting, v1alpha1.ReasonWaitsForNamespace, maxRetry
	why := "is placed at the location, too, and is not there yet; see its own state"
	switch {
	case errors.Is(err, hubclient.ErrUnanswered):
		o.Retry = sharedRetry
		why = "is missing or cannot be read, and the hub has not answered whether another shard of the location has it"
	case errors.Is(err, errShared): // nothing else shows when it is there
		o.Retry = sharedRetry
	}
	o.Message = wire.Brief("the Namespace " + t.id.Namespace + " " + why)
	return o
}
