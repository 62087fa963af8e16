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

// Timeout is the time limit for requests other than watches, comparisons and sessions. It is the
// default of kube-apiserver.
const Timeout = time.Minute

// ArrivalTimeout is the time limit for receiving a body, or the part that is read without a turn,
// before its request gets a turn.
const ArrivalTimeout = 30 * time.Second

// Limiter limits concurrent requests: it serves each request when it gets a turn.
type Limiter struct {
	// Queue limits the number of concurrent requests; Bodies limits how many of them send large
	// bodies.
	Queue  *fairqueue.Queue
	Bodies fairqueue.Bodies
	// Lasting limits long requests, which hold no turn; nil if there are none.
	Lasting *fairqueue.Queue
	// Arrivals receives the bodies of requests before their turn; nil to read bodies in their turn.
	Arrivals *Arrivals
}

// Arrivals receives the first part of bodies. A request waits for the first fairqueue.SmallBody
// bytes of its body, or for all of a smaller one, before it gets a turn. A slow client thus does
// not delay others.
type Arrivals struct {
	// Budget limits the total size of the bodies that are being received.
	Budget *fairqueue.Budget
	// Read reads the first bytes of a body, up to most, and puts them back. Expected returns how
	// many bytes there may be; 0 for no body.
	Read     func(r *http.Request, most int64) error
	Expected func(r *http.Request, most int64) int64
	// Timeout is the time limit for that; 0 for ArrivalTimeout.
	Timeout time.Duration
}

type requesterKey struct{}

// Requester is the user that is charged for the turns of a request.
type Requester struct {
	// Name is that of a user.
	Name string
	// Operator reports whether the request may use capacity that is reserved for administrators.
	Operator bool
}

// WithRequester adds the charged user to the context of a request.
func WithRequester(ctx context.Context, user Requester) context.Context {
	return context.WithValue(ctx, requesterKey{}, user)
}

// flowOf returns the flow of a request below a root.
func flowOf(r *http.Request, root route.Root) fairqueue.Flow {
	user, _ := r.Context().Value(requesterKey{}).(Requester)
	return fairqueue.Flow{Name: root.String(), User: user.Name, Reserved: user.Operator}
}

// RetryLasting is the number of seconds after which a client should retry a watch that was refused.
const RetryLasting = 10

// Serve serves a request when it gets a turn; its flow is the root and the user. A deadline ends a
// request whose client is slow to send or receive, so that it returns its turn.
func (t Limiter) Serve(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	flow, control := flowOf(r, root), http.NewResponseController(w)
	arrived, err := t.Arrivals.await(control, r, flow)
	if err != nil {
		if r.ProtoMajor == 1 { // otherwise the response is sent only after the end of the body
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
	// A writer without deadlines, as in tests, has no limit.
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
	// A later request, for instance a watch, may reuse the connection.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	serve(w, r)
}

// await returns when the first part of a body has been received. arrived must be called when the
// request gets its turn, or fails; from then on turns limit the memory of the body.
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

// slowBody returns the error for a request whose body is not received in time.
func slowBody(wait time.Duration) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request did not arrive within %s: send it again, faster or in smaller parts", wait),
	}}
}

// Start serves a long request, such as a watch, when it gets a turn. It holds its turn until
// flowcontrol.WatchInitialized reports the start, but at most for Timeout. From then on the request
// uses little CPU, but memory, so it is refused if Lasting has no turn left.
func (t Limiter) Start(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
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
	go func() { // ends at the latest with the request
		begun.Wait()
		late.Stop()
		once()
	}()
	serve(w, r.WithContext(flowcontrol.WithInitializationSignal(r.Context(), begun)))
}
