package view

import (
	"context"
	"errors"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/table"
)

// Watch starts a watch. It ends with the context, with Stop, with the server, when a premise
// fails, or with an event that carries 410 when the window no longer reaches back to it.
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
	sub, err := r.server.config.Table.Subscribe(w.cursor, r.premises(ctx, w.cursor), r.lens.topics(w.query)...)
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
	ctx, w.cancel = context.WithCancel(ctx)
	w.sub, w.results, w.ended, w.late = sub, make(chan watch.Event, pendingEvents), make(chan struct{}), make(chan struct{})
	go w.run(ctx)
	return w, nil
}

// pendingEvents is how many events may wait for a client. While some do, the handler does
// not flush.
const pendingEvents = 16

// watcher is one watch. Its goroutine ends by itself when the context does, so a caller that
// never got the watch need not Stop it.
type watcher struct {
	reader    *reader
	query     query
	selected  selection
	bookmarks bool
	initial   *state // what is sent first; nil for none

	sub *table.Subscription
	// cursor is the revision up to which everything has been taken by the client.
	cursor int64
	// woken says that the subscription woke the watch while it was busy.
	woken   bool
	results chan watch.Event
	cancel  context.CancelFunc
	ended   chan struct{}
	// late is closed when the client has had its time, which last measures, to read what was
	// before the end. last is nil while nothing has ended.
	late chan struct{}
	last *time.Timer
}

// start decides what is sent first and after which revision changes follow.
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

// ResultChan gives the events until the watch ends.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the watch and returns when it has ended.
func (w *watcher) Stop() {
	w.cancel()
	<-w.ended
}

func (w *watcher) run(ctx context.Context) {
	defer w.reader.server.watches.Done()
	defer close(w.ended)
	defer close(w.results)
	defer w.cancel()
	defer w.sub.Close()
	timer := newBookmarkTimer(ctx, w.reader.server.config.BookmarkEvery)
	defer timer.Stop()
	err := w.follow(ctx, timer)
	if ctx.Err() == nil {
		w.lastCall(ctx)
	}
	if w.last != nil {
		defer w.last.Stop()
	}
	if errors.Is(err, errStopped) {
		return
	}
	w.fail(ctx, err)
}

// lastCall gives the client a moment to read what was before the end. A client that does not
// read can't delay the end.
func (w *watcher) lastCall(ctx context.Context) {
	if w.last == nil {
		wait := w.reader.server.config.FutureWait
		w.last = time.AfterFunc(wait, func() { close(w.late) })
		cut(ctx, time.Now().Add(wait))
	}
}

// fail tells the client why the watch ends, unless it does not read.
func (w *watcher) fail(ctx context.Context, err error) {
	select {
	case w.results <- watch.Event{Type: watch.Error, Object: statusOf(expired(err))}:
	case <-w.late:
	case <-ctx.Done():
	case <-w.reader.server.done:
	}
}

// follow sends the initial state and then changes, until it can't continue.
func (w *watcher) follow(ctx context.Context, timer *bookmarkTimer) error {
	if w.initial != nil {
		if err := w.sendInitial(ctx, timer); err != nil {
			return err
		}
	}
	flowcontrol.WatchInitialized(ctx) // from here on it takes no work while nothing changes
	for {
		steps, upTo, err := w.sub.Poll()
		if err != nil {
			return err
		}
		if steps, err = w.reader.composed(w.query, steps, upTo); err != nil {
			return err
		}
		for _, step := range steps {
			w.cursor = step.Rev - 1
			if err := w.sendStep(ctx, timer, step); err != nil {
				return err
			}
			w.cursor = step.Rev
		}
		w.cursor = upTo
		if timer.take() && w.bookmarks {
			if err := w.send(ctx, timer, w.bookmark(false)); err != nil {
				return err
			}
		}
		if err := w.wait(ctx, timer); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to do.
func (w *watcher) wait(ctx context.Context, timer *bookmarkTimer) error {
	if w.woken || timer.due {
		w.woken = false
		return nil
	}
	select {
	case <-w.sub.Wake():
		return nil
	case <-timer.C:
		timer.rang()
		return nil
	case <-ctx.Done():
	case <-w.reader.server.done:
	}
	return errStopped
}

// sendInitial sends the state at the cursor and, if the client allows bookmarks, one that
// says that this was all.
func (w *watcher) sendInitial(ctx context.Context, timer *bookmarkTimer) error {
	st, err := w.initial, error(nil)
	w.initial = nil
	st.from("", func(row *table.Row) bool {
		if w.reader.shown(row, w.selected) {
			err = w.send(ctx, timer, watch.Event{Type: watch.Added, Object: w.reader.object(row, st.rev)})
		}
		return err == nil
	})
	if err != nil || !w.bookmarks {
		return err
	}
	return w.send(ctx, timer, w.bookmark(true))
}

// sendStep sends what one revision did. All events but the last carry the revision before
// it, so that a client that resumes between them gets the rest.
func (w *watcher) sendStep(ctx context.Context, timer *bookmarkTimer, step table.Step) error {
	events := w.reader.events(w.query, w.selected, step)
	for i, e := range events {
		rev := step.Rev
		if i < len(events)-1 {
			rev--
		}
		object := &object{reader: w.reader, row: w.reader.complete(e.row), rev: rev}
		if err := w.send(ctx, timer, watch.Event{Type: e.kind, Object: object}); err != nil {
			return err
		}
	}
	return nil
}

// send hands one event to the client. While the client does not take it, a premise may fail:
// then the client gets a moment to read what was before. And the window may move past the
// watch: then it ends, so that it does not keep alive what the window has dropped.
func (w *watcher) send(ctx context.Context, timer *bookmarkTimer, e watch.Event) error {
	select {
	case w.results <- e:
		return nil
	default: // the client has to take something first
	}
	for {
		select {
		case w.results <- e:
			return nil
		case <-ctx.Done():
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
			w.lastCall(ctx)
		}
		if w.reader.server.config.Table.Floor(w.reader.lens.topics(w.query)...) > w.cursor {
			return errStopped
		}
	}
}
