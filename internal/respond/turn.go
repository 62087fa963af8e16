package respond

import (
	"net/http"
	"time"

	"orrery.dev/orrery/internal/fair"
	"orrery.dev/orrery/internal/route"
)

// Timeout bounds how long a request may take that is neither a watch nor a session; it
// is kube-apiserver's default.
const Timeout = time.Minute

// Turns has requests served in their turn.
type Turns struct {
	// Queue bounds how many are at once, Bodies how many of them send large bodies.
	Queue  *fair.Queue
	Bodies fair.Bodies
}

// Serve serves a request when it is the turn of what it is about. A client that is slow
// to send or to read is not waited for without end, since it would hold the turn.
func (t Turns) Serve(root route.Root, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	leave, err := t.Queue.Enter(r.Context(), root.String())
	if err != nil {
		Error(w, r, err)
		return
	}
	defer leave()
	defer t.Bodies.Limit(r, root.String())()
	control, deadline := http.NewResponseController(w), time.Now().Add(Timeout)
	// What has no deadlines, as in tests, goes without.
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
	// The connection may be used again, by a watch perhaps.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	serve(w, r)
}
