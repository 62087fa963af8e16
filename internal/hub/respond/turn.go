package respond

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/route"
)

// Timeout bounds requests that are neither watches, walks nor sessions. It is the default
// of kube-apiserver.
const Timeout = time.Minute

// Turns serves requests in turn.
type Turns struct {
	// Queue bounds how many are served at once; Bodies bounds how many of them send large
	// bodies.
	Queue  *fairqueue.Queue
	Bodies fairqueue.Bodies
	// Lasting bounds the requests that go on, which hold no turn; nil: there are none.
	Lasting *fairqueue.Queue
}

// RetryLasting is after how many seconds a client is to try again whose watch has no room.
const RetryLasting = 10

// Serve serves a request when it gets a turn; the flow is its root. It has a deadline, so
// that a client that is slow to send or to read does not hold its turn for ever.
func (t Turns) Serve(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	leave, err := t.Queue.Enter(r.Context(), root.String())
	if err != nil {
		Error(w, r, err)
		return
	}
	defer leave()
	defer t.Bodies.Limit(r, root.String())()
	control, deadline := http.NewResponseController(w), time.Now().Add(Timeout)
	// A writer without deadlines, as in tests, goes without.
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
	// The connection may be reused, for instance by a watch.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	serve(w, r)
}

// Start serves a request that goes on, such as a watch, when it gets a turn. It holds its
// turn until flowcontrol.WatchInitialized says that it has begun, but no longer than Timeout: from then on
// it takes no work while nothing changes, but memory: one more than there is room for is refused.
func (t Turns) Start(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	end, err := t.Lasting.Try(root.String())
	if err != nil {
		Error(w, r, apierrors.NewTooManyRequests(fmt.Sprintf("as many watches are open as the hub has room for, or as %s may have", root), RetryLasting))
		return
	}
	defer After(r.Context(), end)
	leave, err := t.Queue.Enter(r.Context(), root.String())
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
