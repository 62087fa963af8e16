package read

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"orrery.dev/orrery/internal/hub/respond"
)

// Most watches are idle, and there are many, so memory per idle watch is what they cost. The
// goroutine of the request therefore writes watches of whole objects, which informers use. Such a
// watch needs no goroutine, no channel and none of the state of the handlers in
// k8s.io/apiserver. These still parse and check the request; they only do not serve it.

// watching serves watches: directly if possible, otherwise with next.
func watching(r *reader, scope *handlers.RequestScope, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		negotiated, _, err := negotiation.NegotiateOutputMediaType(req, scope.Serializer, scope)
		to := r.format.shape.streams[negotiated.Accepted.MediaType]
		if err != nil || negotiated.Convert != nil || to == nil || wsstream.IsWebSocketRequest(req) {
			cuttable(next)(w, req)
			return
		}
		d, task := &direct{medium: to, w: w}, &routine.Task{}
		ctx, cancel := context.WithCancel(context.WithValue(req.Context(), serverKey{}, d))
		served := false
		defer func() {
			if !served {
				d.close()
				cancel()
			}
		}()
		next(w, req.WithContext(routine.WithTask(ctx, task)))
		switch served = task.Func != nil; {
		case !served: // the handlers refused the request
		case d.watcher == nil: // refused: the only event is an error
			respond.Serve(req.Context(), func() {
				defer cancel()
				task.Func()
			})
		default:
			d.watcher.over = req.Context().Done()
			cancel() // the handlers' contexts are not needed any more
			respond.Serve(req.Context(), d.serve)
		}
	}
}

// direct writes the events of a watch to its client. The handlers take it for the watch.
type direct struct {
	*medium
	w       http.ResponseWriter
	watcher *watcher
	// buffer has events that are not yet written, or is nil. taken is the revision up to which
	// all events have been written.
	buffer *bytes.Buffer
	taken  int64
}

var (
	_ watch.Interface = &direct{}
	_ watchServer     = &direct{}
	_ eventWriter     = &direct{}
)

// adopt implements watchServer.
func (d *direct) adopt(w *watcher) watch.Interface {
	d.watcher = w
	return d
}

// ResultChan is never read.
func (d *direct) ResultChan() <-chan watch.Event { return nil }

// Stop does nothing: the handlers that would call it do not serve the watch.
func (d *direct) Stop() {}

// close ends the watch.
func (d *direct) close() {
	if d.watcher != nil {
		d.watcher.sub.Close()
		d.watcher.reader.watches.end()
	}
}

// serve writes events until the watch ends. Everything but waiting runs in another goroutine,
// because a stack that has grown for one event does not shrink while the watch is idle.
func (d *direct) serve() {
	defer d.close()
	err := respond.Aside(d.begin)
	if err == nil {
		err = d.watcher.follow(respond.Aside)
	}
	_ = respond.Aside(func() error { return d.end(err) }) // writes to a closed connection may fail
}

// begin writes the header of the response.
func (d *direct) begin() error {
	control := http.NewResponseController(d.w)
	// Writers in tests have no deadlines.
	d.watcher.to, d.watcher.cut = d, func(deadline time.Time) { _ = control.SetWriteDeadline(deadline) }
	d.taken = d.watcher.cursor
	d.w.Header().Set("Content-Type", d.mediaType)
	d.w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return errStopped
	}
	return nil
}

// end sends the error that ended the watch, except errStopped.
func (d *direct) end(err error) error {
	w := d.watcher
	if errors.Is(err, errStopped) {
		w.stopLast()
		return nil
	}
	w.lastCall()
	defer w.stopLast()
	return d.fail(err)
}

// fail sends an error event with the reason why the watch ends.
func (d *direct) fail(err error) error {
	if d.buffer == nil {
		d.buffer = d.watcher.reader.format.buffers.get()
	}
	defer d.letGo()
	if err := d.write(watch.Event{Type: watch.Error, Object: statusOf(expired(err))}, d.buffer); err != nil {
		return err
	}
	return d.writeOut()
}

// add appends an event to the buffer, and flushes a large buffer.
func (d *direct) add(timer *bookmarkTimer, e watch.Event) error {
	if d.buffer == nil {
		d.buffer = d.watcher.reader.format.buffers.get()
	}
	if d.write(e, d.buffer) != nil {
		return errStopped
	}
	if d.buffer.Len() < pieceBytes/2 {
		return nil
	}
	return d.flush(timer)
}

// flush writes the buffer and sends it to the client.
func (d *direct) flush(timer *bookmarkTimer) error {
	if d.buffer == nil {
		d.taken = d.watcher.cursor
		return nil
	}
	defer d.letGo()
	done, attended := make(chan struct{}), make(chan struct{})
	late := time.AfterFunc(blockedAfter, func() {
		defer close(attended)
		d.watcher.attend(timer, d.taken, done)
	})
	err := d.writeOut()
	close(done)
	if !late.Stop() {
		<-attended
	}
	if err != nil {
		return errStopped
	}
	d.taken = d.watcher.cursor
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
		d.watcher.reader.format.buffers.put(d.buffer)
		d.buffer = nil
	}
}

// blockedAfter is how long a write may block before attend starts to monitor the watch.
const blockedAfter = 20 * time.Millisecond

// attend monitors a watch whose write to the client blocks. It cuts the connection in the cases
// in which send would end the watch.
func (w *watcher) attend(timer *bookmarkTimer, taken int64, done <-chan struct{}) {
	for {
		if w.sub.Ended() != nil {
			w.lastCall()
		}
		if w.left(taken) {
			w.cut(time.Now())
			return
		}
		select {
		case <-done:
			return
		case <-w.over:
			w.cut(time.Now())
			return
		case <-w.reader.watches.done:
			w.cut(time.Now())
			return
		case <-timer.C:
			timer.rang()
			if timer.passed() {
				w.cut(time.Now())
				return
			}
		case <-w.sub.Wake():
			w.woken = true
		}
	}
}
