package respond

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/route"
)

// Timeout bounds requests that are neither watches, walks nor sessions. It is the default
// of kube-apiserver.
const Timeout = time.Minute

// ArrivalTimeout is how long a body may take to arrive before its request gets a turn, or as much
// of it as is read without one.
const ArrivalTimeout = 30 * time.Second

// Turns serves requests in turn.
type Turns struct {
	// Queue bounds how many are served at once; Bodies bounds how many of them send large
	// bodies.
	Queue  *fairqueue.Queue
	Bodies fairqueue.Bodies
	// Lasting bounds the requests that go on, which hold no turn; nil: there are none.
	Lasting *fairqueue.Queue
	// Arrivals has the bodies of requests that have no turn yet; nil: a body is read in its turn.
	Arrivals *Arrivals
}

// Arrivals are bodies that arrive. A request waits for the first fairqueue.SmallBody bytes of its body, or for all of
// a smaller one, before it gets a turn: a client that is slow, or never ends, holds up no other.
type Arrivals struct {
	// Budget bounds the bytes of all that arrive.
	Budget *fairqueue.Budget
	// Read reads the first bytes of a body, up to most, and puts them back. Expected is how many
	// there may be; 0: there is no body.
	Read     func(r *http.Request, most int64) error
	Expected func(r *http.Request, most int64) int64
	// Timeout is how long that may take; 0: ArrivalTimeout.
	Timeout time.Duration
}

type requesterKey struct{}

// Requester is the user that is charged for the turns of a request.
type Requester struct {
	// Name is that of a user.
	Name string
	// Operator reports that the request may have what is reserved for operators.
	Operator bool
}

// WithRequester puts the user that is charged for a request into its context.
func WithRequester(ctx context.Context, user Requester) context.Context {
	return context.WithValue(ctx, requesterKey{}, user)
}

// flowOf is the flow of a request about a root.
func flowOf(r *http.Request, root route.Root) fairqueue.Flow {
	user, _ := r.Context().Value(requesterKey{}).(Requester)
	return fairqueue.Flow{Name: root.String(), User: user.Name, Reserved: user.Operator}
}

// RetryLasting is after how many seconds a client is to try again whose watch has no room.
const RetryLasting = 10

// Serve serves a request when it gets a turn; the flow is its root, of the user that sends it. It has a deadline, so
// that a client that is slow to send or to read does not hold its turn for ever.
func (t Turns) Serve(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	flow, control := flowOf(r, root), http.NewResponseController(w)
	arrived, err := t.Arrivals.await(control, r, flow)
	if err != nil {
		if r.ProtoMajor == 1 { // else the answer is sent when the body has ended, which it may not
			w.Header().Set("Connection", "close")
		}
		Error(w, r, err)
		return
	}
	leave, err := t.Queue.Enter(r.Context(), flow)
	arrived()
	if err != nil {
		Error(w, r, err)
		return
	}
	defer leave()
	defer t.Bodies.Limit(r, flow)()
	deadline := time.Now().Add(Timeout)
	// A writer without deadlines, as in tests, goes without.
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
	// The connection may be reused, for instance by a watch.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	serve(w, r)
}

// await returns when the first part of a body has arrived. arrived must be called when the
// request has its turn, or gets none: then what the body takes is bounded by turns.
func (a *Arrivals) await(control *http.ResponseController, r *http.Request, flow fairqueue.Flow) (arrived func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	size := a.Expected(r, fairqueue.SmallBody)
	if size == 0 {
		return func() {}, nil
	}
	release, err := a.Budget.Take(flow, size)
	if err != nil {
		return nil, err
	}
	wait := a.Timeout
	if wait == 0 {
		wait = ArrivalTimeout
	}
	_ = control.SetReadDeadline(time.Now().Add(wait))
	if err = a.Read(r, size); err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return release, nil
	}
	release()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = slowBody(wait)
	}
	return nil, err
}

// slowBody is the answer to a request whose body does not arrive in time.
func slowBody(wait time.Duration) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request did not arrive within %s: send it again, faster or in smaller parts", wait),
	}}
}

// Start serves a request that goes on, such as a watch, when it gets a turn. It holds its
// turn until flowcontrol.WatchInitialized says that it has begun, but no longer than Timeout: from then on
// it takes no work while nothing changes, but memory: one more than there is room for is refused.
func (t Turns) Start(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	flow := flowOf(r, root)
	end, err := t.Lasting.Try(flow)
	if err != nil {
		Error(w, r, apierrors.NewTooManyRequests(fmt.Sprintf(
			"as many watches are open as the hub has room for, or as its user or %s may have: close some, or ask again later", root), RetryLasting))
		return
	}
	defer After(r.Context(), end)
	leave, err := t.Queue.Enter(r.Context(), flow)
	if err != nil {
		Error(w, r, err)
		return
	}
	begun := flowcontrol.NewInitializationSignal()
	defer After(r.Context(), begun.Signal)
	once := sync.OnceFunc(leave)
	late := time.AfterFunc(Timeout, once)
	go func() { // ends with the request at the latest
		begun.Wait()
		late.Stop()
		once()
	}()
	serve(w, r.WithContext(flowcontrol.WithInitializationSignal(r.Context(), begun)))
}
