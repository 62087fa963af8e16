// Package direct writes the events of watches to clients without the handlers of k8s.io/apiserver. It is a fast
// path: without it, these serve all watches, with the same bytes.
//
// Most watches are idle, and there are many, so memory per idle watch is what they cost. The goroutine of the
// request therefore writes watches of whole objects, which informers use. Such a watch needs no goroutine, no
// channel and none of the state of the handlers. These still parse and check the request; they only do not
// serve it.
package direct

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/hub/respond"
)

// Watch is a watch that has been started. Only Attend may be called beside another method.
type Watch interface {
	// Attach sets the writer of events, the channel that is closed when the client has gone, and the function
	// that ends a blocked write at a time.
	Attach(to Writer, over <-chan struct{}, cut func(deadline time.Time))
	// Follow sends events until the watch ends. It calls do with all its work but waiting.
	Follow(do func(func() error) error) error
	// Cursor is the revision up to which all events have been added.
	Cursor() int64
	// Attend monitors the watch while a write to the client blocks, until done is closed. It cuts the
	// connection if the watch must end. taken is the revision up to which the client has all events.
	Attend(taken int64, done <-chan struct{})
	// Status returns the Status that the client gets for the error of Follow, or nil. The client has a
	// limited time to read it. End ends that time.
	Status(err error) runtime.Object
	End()
	// Close releases the watch.
	Close()
}

// Writer writes events to a client.
type Writer interface {
	// Add adds an event, which may be sent later.
	Add(e watch.Event) error
	// Flush sends the added events.
	Flush() error
}

// ErrGone is returned by a Writer whose client has gone.
var ErrGone = errors.New("the client has gone")

// Handler serves watches in one of the media, by media type. It calls handlers to check the request and to
// start the watch, and standard for other requests.
func Handler(scope *handlers.RequestScope, media map[string]*Medium, buffers *pieces.Buffers, start, standard http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		negotiated, _, err := negotiation.NegotiateOutputMediaType(req, scope.Serializer, scope)
		to := media[negotiated.Accepted.MediaType]
		if err != nil || negotiated.Convert != nil || to == nil || wsstream.IsWebSocketRequest(req) {
			standard(w, req)
			return
		}
		d, task := &direct{medium: to, w: w, buffers: buffers}, &routine.Task{}
		ctx, cancel := context.WithCancel(context.WithValue(req.Context(), contextKey{}, d))
		served := false
		defer func() {
			if !served {
				d.close()
				cancel()
			}
		}()
		start(w, req.WithContext(routine.WithTask(ctx, task)))
		switch served = task.Func != nil; {
		case !served: // the handlers refused the request
		case d.watch == nil: // refused: the only event is an error
			respond.Serve(req.Context(), func() {
				defer cancel()
				task.Func()
			})
		default:
			d.over = req.Context().Done()
			cancel() // the handlers' contexts are not needed any more
			respond.Serve(req.Context(), d.serve)
		}
	}
}

// contextKey is the key of a *direct in the context of a request.
type contextKey struct{}

// Adopt takes over a watch that was started for a request of a Handler, and returns what the handlers get
// for it. ok is false for other requests.
func Adopt(ctx context.Context, w Watch) (adopted watch.Interface, ok bool) {
	d, ok := ctx.Value(contextKey{}).(*direct)
	if !ok {
		return nil, false
	}
	d.watch = w
	return d, true
}

// direct writes the events of a watch to its client. The handlers take it for the watch.
type direct struct {
	medium  *Medium
	buffers *pieces.Buffers
	w       http.ResponseWriter
	watch   Watch
	over    <-chan struct{}
	// buffer has events that are not yet written, or is nil. taken is the revision up to which
	// all events have been written.
	buffer *bytes.Buffer
	taken  int64
}

var (
	_ watch.Interface = &direct{}
	_ Writer          = &direct{}
)

// ResultChan is never read.
func (d *direct) ResultChan() <-chan watch.Event { return nil }

// Stop does nothing: the handlers that would call it do not serve the watch.
func (d *direct) Stop() {}

// close ends the watch.
func (d *direct) close() {
	if d.watch != nil {
		d.watch.Close()
	}
}

// serve writes events until the watch ends. Everything but waiting runs in another goroutine,
// because a stack that has grown for one event does not shrink while the watch is idle.
func (d *direct) serve() {
	defer d.close()
	err := respond.Aside(d.begin)
	if err == nil {
		err = d.watch.Follow(respond.Aside)
	}
	_ = respond.Aside(func() error { return d.end(err) }) // writes to a closed connection may fail
}

// begin writes the header of the response.
func (d *direct) begin() error {
	control := http.NewResponseController(d.w)
	// Writers in tests have no deadlines.
	d.watch.Attach(d, d.over, func(deadline time.Time) { _ = control.SetWriteDeadline(deadline) })
	d.taken = d.watch.Cursor()
	d.w.Header().Set("Content-Type", d.medium.MediaType)
	d.w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return ErrGone
	}
	return nil
}

// end sends the error that ended the watch, if the client gets one.
func (d *direct) end(err error) error {
	defer d.watch.End()
	status := d.watch.Status(err)
	if status == nil {
		return nil
	}
	if d.buffer == nil {
		d.buffer = d.buffers.Get()
	}
	defer d.letGo()
	if err := d.medium.write(watch.Event{Type: watch.Error, Object: status}, d.buffer); err != nil {
		return err
	}
	return d.writeOut()
}

// Add appends an event to the buffer, and flushes a large buffer.
func (d *direct) Add(e watch.Event) error {
	if d.buffer == nil {
		d.buffer = d.buffers.Get()
	}
	if d.medium.write(e, d.buffer) != nil {
		return ErrGone
	}
	if d.buffer.Len() < flushBytes {
		return nil
	}
	return d.Flush()
}

// Flush writes the buffer and sends it to the client.
func (d *direct) Flush() error {
	if d.buffer == nil {
		d.taken = d.watch.Cursor()
		return nil
	}
	defer d.letGo()
	done, attended := make(chan struct{}), make(chan struct{})
	late := time.AfterFunc(blockedAfter, func() {
		defer close(attended)
		d.watch.Attend(d.taken, done)
	})
	err := d.writeOut()
	close(done)
	if !late.Stop() {
		<-attended
	}
	if err != nil {
		return ErrGone
	}
	d.taken = d.watch.Cursor()
	return nil
}

func (d *direct) writeOut() error {
	if _, err := d.w.Write(d.buffer.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(d.w).Flush()
}

func (d *direct) letGo() {
	if d.buffer != nil {
		d.buffers.Put(d.buffer)
		d.buffer = nil
	}
}

// flushBytes is the size at which a buffer is written.
const flushBytes = 32 << 10

// blockedAfter is how long a write may block before Attend starts to monitor the watch.
const blockedAfter = 20 * time.Millisecond
