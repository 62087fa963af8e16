package read

import (
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"orrery.dev/orrery/internal/hub/kubeapi/read/direct"
)

// watching serves watches: directly if possible, otherwise with next.
func watching(r *reader, scope *handlers.RequestScope, next http.HandlerFunc) http.HandlerFunc {
	return direct.Handler(scope, r.format.shape.streams, &r.format.buffers, next, cuttable(next))
}

// directWatch is a watcher that package direct serves.
type directWatch struct{ *watcher }

var _ direct.Watch = directWatch{}

// Attach implements direct.Watch.
func (w directWatch) Attach(to direct.Writer, over <-chan struct{}, cut func(time.Time)) {
	w.to, w.over, w.cut = to, over, cut
}

// Follow implements direct.Watch.
func (w directWatch) Follow(do func(func() error) error) error { return w.follow(do) }

// Cursor implements direct.Watch.
func (w directWatch) Cursor() int64 { return w.cursor }

// Status implements direct.Watch.
func (w directWatch) Status(err error) runtime.Object {
	if errors.Is(err, errStopped) || errors.Is(err, direct.ErrGone) {
		return nil
	}
	w.lastCall()
	return statusOf(expired(err))
}

// End implements direct.Watch.
func (w directWatch) End() { w.stopLast() }

// Close implements direct.Watch.
func (w directWatch) Close() {
	w.sub.Close()
	w.reader.watches.end()
}

// Attend cuts the connection in the cases in which send would end the watch.
func (w directWatch) Attend(taken int64, done <-chan struct{}) {
	timer := w.timer
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
