package read

import (
	"context"
	"errors"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Watch starts a watch. It ends with the context, with Stop, with the server, or when a stream
// condition fails. It ends with an error event of code 410 when the window of the table no longer
// contains its next change.
func (r *reader) Watch(ctx context.Context, opts *metainternalversion.ListOptions) (watch.Interface, error) {
	if opts == nil {
		opts = &metainternalversion.ListOptions{}
	}
	w := &watcher{reader: r, bookmarks: opts.AllowWatchBookmarks}
	w.query, w.selected = r.query(ctx, "").selecting(opts)
	if err := r.server.await(ctx, opts.ResourceVersion); err != nil {
		return refused(err)
	}
	if err := w.start(opts); err != nil {
		return nil, err
	}
	sub, err := r.server.config.Table.Subscribe(w.cursor, r.conditions(ctx, w.cursor), r.lens.topics(w.query)...)
	if err != nil {
		return refused(r.tooOld(w, err))
	}
	if !r.stillAccepted(w.cursor) {
		sub.Close()
		return refused(expired(errAnother))
	}
	if err := r.server.begin(); err != nil {
		sub.Close()
		return nil, err
	}
	w.sub, w.initialized = sub, func() { flowcontrol.WatchInitialized(ctx) }
	w.deadline, _ = ctx.Deadline()
	if d, ok := ctx.Value(directKey{}).(*direct); ok {
		d.watcher = w
		return d, nil
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.over, w.cut = ctx.Done(), func(deadline time.Time) { cut(ctx, deadline) }
	w.results, w.ended, w.late = make(chan watch.Event, pendingEvents), make(chan struct{}), make(chan struct{})
	go w.run()
	return w, nil
}

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
	to      *direct
	results chan watch.Event
	cancel  context.CancelFunc
	ended   chan struct{}
	late    chan struct{}
}

// start determines the initial state to send, and the revision after which changes follow.
func (w *watcher) start(opts *metainternalversion.ListOptions) error {
	t := w.reader.server.config.Table
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		st := w.reader.lens.now(t, w.query)
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
	defer w.reader.server.watches.Done()
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
		wait := w.reader.server.config.FutureWait
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
	case <-w.reader.server.done:
	}
}

// follow sends the initial state and then changes, until it can't continue. It calls do with all
// its work but waiting.
func (w *watcher) follow(do func(func() error) error) error {
	timer := newBookmarkTimer(w.deadline, w.reader.server.config.BookmarkEvery)
	defer timer.Stop()
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
	return w.flush(timer)
}

// sendChanges sends the changes since the cursor.
func (w *watcher) sendChanges(timer *bookmarkTimer) error {
	steps, upTo, err := w.sub.Poll()
	if err != nil {
		return err
	}
	if steps, err = w.reader.composed(w.query, steps, upTo); err != nil {
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
	case <-w.reader.server.done:
	}
	return errStopped
}

// sendInitial sends the state at the cursor and, if the client allows bookmarks, one that marks
// its end.
func (w *watcher) sendInitial(timer *bookmarkTimer) error {
	st, err := w.initial, error(nil)
	w.initial = nil
	st.from("", func(row *table.Row) bool {
		if w.reader.shown(row, w.selected) {
			err = w.send(timer, watch.Event{Type: watch.Added, Object: w.reader.object(row, st.rev)})
		}
		return err == nil
	})
	if err == nil && w.bookmarks {
		err = w.send(timer, w.bookmark(true))
	}
	if err != nil {
		return err
	}
	return w.flush(timer)
}

// sendStep sends the events of one revision. All events but the last carry the revision before
// it, so that a client that resumes between them gets the remaining ones.
func (w *watcher) sendStep(timer *bookmarkTimer, step table.Step) error {
	events := w.reader.events(w.query, w.selected, step)
	for i, e := range events {
		rev := step.Rev
		if i < len(events)-1 {
			rev--
		}
		object := &object{reader: w.reader, row: w.reader.complete(e.row), rev: rev}
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
		return w.to.add(timer, e)
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
		case <-w.reader.server.done:
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
	return w.reader.server.config.Table.Floor(w.reader.lens.topics(w.query)...) > rev
}

// flush sends buffered events to the client.
func (w *watcher) flush(timer *bookmarkTimer) error {
	if w.to == nil {
		return nil
	}
	return w.to.flush(timer)
}
