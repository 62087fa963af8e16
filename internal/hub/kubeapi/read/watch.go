package read

import (
	"context"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/internal/hub/kubeapi/read/direct"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// pendingEvents is the size of the queue of events for a client. The handler flushes only when the
// queue is empty.
const pendingEvents = 16

// watcher is one watch. direct serves it, or the handlers of k8s.io/apiserver if only these have
// the requested form. In the latter case it has a goroutine, which ends with the context: a
// caller that never received the watch need not call Stop.
type watcher struct {
	reader    *reader
	query     query
	selected  selection
	bookmarks bool
	initial   *state // the initial state to send, or nil

	sub *table.Subscription
	// cursor is the revision up to which all events have been sent. With direct, some of them
	// may be in its buffer.
	cursor int64
	// woken is set if the subscription woke the watch while it was busy.
	woken bool
	// timer is that of follow.
	timer *bookmarkTimer
	// initialized is called once, after the initial state.
	initialized func()
	// over is closed when the client no longer reads events; deadline is the latest time of
	// that, or zero. cut ends a blocked write at a time.
	over     <-chan struct{}
	deadline time.Time
	cut      func(deadline time.Time)
	// last is set when the watch is about to end. The client has until then to read
	// pending events. Then late is closed.
	last *time.Timer

	// to writes events. If it is nil, events go to results, and the fields below are set.
	to      direct.Writer
	results chan watch.Event
	cancel  context.CancelFunc
	ended   chan struct{}
	late    chan struct{}
}

// start determines the initial state to send, and the revision after which changes follow.
func (w *watcher) start(opts *metainternalversion.ListOptions) error {
	t := w.reader.config.Table
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		st := w.reader.view.lens.now(t, w.query)
		w.initial, w.cursor = &st, st.rev
		return nil
	}
	if opts.ResourceVersion == "" || opts.ResourceVersion == "0" {
		w.cursor = t.Rev()
		return nil
	}
	rev, err := parseVersion(opts.ResourceVersion)
	w.cursor = rev
	return err
}

// ResultChan returns the channel of events, which is closed at the end of the watch.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the watch and waits for its end.
func (w *watcher) Stop() {
	w.cancel()
	<-w.ended
}

func (w *watcher) run() {
	defer w.reader.watches.end()
	defer close(w.ended)
	defer close(w.results)
	defer w.cancel()
	defer w.sub.Close()
	err := w.follow(func(f func() error) error { return f() })
	if !w.isOver() {
		w.lastCall()
	}
	defer w.stopLast()
	if errors.Is(err, errStopped) {
		return
	}
	w.fail(err)
}

func (w *watcher) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// lastCall limits the time in which the client can read pending events. A client that does not
// read can't delay the end of the watch.
func (w *watcher) lastCall() {
	if w.last == nil {
		wait := w.reader.config.FutureWait
		w.last = time.AfterFunc(wait, func() {
			if w.late != nil {
				close(w.late)
			}
		})
		w.cut(time.Now().Add(wait))
	}
}

func (w *watcher) stopLast() {
	if w.last != nil {
		w.last.Stop()
	}
}

// fail sends the reason why the watch ends, unless the client does not read.
func (w *watcher) fail(err error) {
	select {
	case w.results <- watch.Event{Type: watch.Error, Object: statusOf(expired(err))}:
	case <-w.late:
	case <-w.over:
	case <-w.reader.watches.done:
	}
}

// follow sends the initial state and then changes, until it can't continue. It calls do with all
// its work but waiting.
func (w *watcher) follow(do func(func() error) error) error {
	timer := newBookmarkTimer(w.deadline, w.reader.config.BookmarkEvery)
	defer timer.Stop()
	w.timer = timer
	if err := do(func() error { return w.begin(timer) }); err != nil {
		return err
	}
	for {
		if err := do(func() error { return w.goOn(timer) }); err != nil {
			return err
		}
		if err := w.wait(timer); err != nil {
			return err
		}
	}
}

// begin sends the initial state, if it is requested.
func (w *watcher) begin(timer *bookmarkTimer) error {
	if w.initial != nil {
		if err := w.sendInitial(timer); err != nil {
			return err
		}
	}
	w.initialized() // an idle watch needs no CPU
	w.initialized = nil
	return nil
}

// goOn sends pending changes and a due bookmark.
func (w *watcher) goOn(timer *bookmarkTimer) error {
	if err := w.sendChanges(timer); err != nil {
		return err
	}
	if timer.take() && w.bookmarks {
		if err := w.send(timer, w.bookmark(false)); err != nil {
			return err
		}
	}
	return w.flush()
}

// sendChanges sends the changes since the cursor.
func (w *watcher) sendChanges(timer *bookmarkTimer) error {
	steps, upTo, err := w.sub.Poll()
	if err != nil {
		return err
	}
	if steps, err = w.reader.history.composed(w.query, steps, upTo); err != nil {
		return err
	}
	for _, step := range steps {
		w.cursor = step.Rev - 1
		if err := w.sendStep(timer, step); err != nil {
			return err
		}
		w.cursor = step.Rev
	}
	w.cursor = upTo
	return nil
}

// wait blocks until there may be changes or a due bookmark.
func (w *watcher) wait(timer *bookmarkTimer) error {
	if timer.passed() {
		return errStopped
	}
	if w.woken || timer.due {
		w.woken = false
		return nil
	}
	select {
	case <-w.sub.Wake():
		return nil
	case <-timer.C:
		timer.rang()
		if !timer.passed() {
			return nil
		}
	case <-w.over:
	case <-w.reader.watches.done:
	}
	return errStopped
}

// sendInitial sends the state at the cursor and, if the client allows bookmarks, one that marks
// its end.
func (w *watcher) sendInitial(timer *bookmarkTimer) error {
	st, err := w.initial, error(nil)
	w.initial = nil
	st.from("", func(row *table.Row) bool {
		if w.reader.view.shown(row, w.selected) {
			err = w.send(timer, watch.Event{Type: watch.Added, Object: w.reader.format.object(row, st.rev)})
		}
		return err == nil
	})
	if err == nil && w.bookmarks {
		err = w.send(timer, w.bookmark(true))
	}
	if err != nil {
		return err
	}
	return w.flush()
}

// sendStep sends the events of one revision. All events but the last carry the revision before
// it, so that a client that resumes between them gets the remaining ones.
func (w *watcher) sendStep(timer *bookmarkTimer, step table.Step) error {
	events := w.reader.history.events(w.query, w.selected, step)
	for i, e := range events {
		rev := step.Rev
		if i < len(events)-1 {
			rev--
		}
		object := w.reader.format.objectAt(e.row, rev)
		if err := w.send(timer, watch.Event{Type: e.kind, Object: object}); err != nil {
			return err
		}
	}
	return nil
}

// send sends one event to the client. If a stream condition fails while the client does not read,
// the client gets a short time to read pending events. If the window of the table moves past
// the watch, the watch ends, so that it does not keep dropped rows in memory.
func (w *watcher) send(timer *bookmarkTimer, e watch.Event) error {
	if w.to != nil {
		return w.to.Add(e)
	}
	select {
	case w.results <- e:
		return nil
	default: // the queue is full
	}
	for {
		select {
		case w.results <- e:
			return nil
		case <-w.over:
			return errStopped
		case <-w.reader.watches.done:
			return errStopped
		case <-w.late:
			return w.sub.Ended()
		case <-timer.C:
			timer.rang()
		case <-w.sub.Wake():
			w.woken = true
		}
		if w.sub.Ended() != nil {
			w.lastCall()
		}
		if w.left(w.cursor) {
			return errStopped
		}
	}
}

// left reports whether the window of the table has moved past a revision.
func (w *watcher) left(rev int64) bool {
	return w.reader.config.Table.Floor(w.reader.view.lens.topics(w.query)...) > rev
}

// bookmark returns a bookmark event at the cursor: the client has received everything up to
// it. complete marks the bookmark after the initial state.
func (w *watcher) bookmark(complete bool) watch.Event {
	obj := w.reader.New()
	if m, err := meta.Accessor(obj); err == nil {
		m.SetResourceVersion(strconv.FormatInt(w.cursor, 10))
		if complete {
			m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}
}

// flush sends buffered events to the client.
func (w *watcher) flush() error {
	if w.to == nil {
		return nil
	}
	return w.to.Flush()
}
