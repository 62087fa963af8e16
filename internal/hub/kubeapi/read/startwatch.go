package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/hub/kubeapi/read/direct"
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
	w.query, w.selected = r.view.query(ctx, "").selecting(opts)
	if err := r.waiter.await(ctx, opts.ResourceVersion); err != nil {
		return refused(err)
	}
	if err := w.start(opts); err != nil {
		return nil, err
	}
	sub, err := r.config.Table.Subscribe(w.cursor, r.conditions(ctx, w.cursor), r.view.lens.topics(w.query)...)
	if err != nil {
		return refused(r.tooOld(w, err))
	}
	if !r.view.stillAccepted(w.cursor) {
		sub.Close()
		return refused(expired(errAnother))
	}
	if err := r.watches.begin(); err != nil {
		sub.Close()
		return nil, err
	}
	w.sub, w.initialized = sub, func() { flowcontrol.WatchInitialized(ctx) }
	w.deadline, _ = ctx.Deadline()
	if adopted, ok := direct.Adopt(ctx, directWatch{w}); ok {
		return adopted, nil
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.over, w.cut = ctx.Done(), func(deadline time.Time) { cut(ctx, deadline) }
	w.results, w.ended, w.late = make(chan watch.Event, pendingEvents), make(chan struct{}), make(chan struct{})
	go w.run()
	return w, nil
}

// conditions returns the stream conditions of a watch that starts at a revision: those of its
// view, and those of its client's access.
func (r *reader) conditions(ctx context.Context, from int64) []table.Condition {
	all := r.view.lens.conditions(r.config, r.view.kind, from)
	if access := r.config.StreamConditions; access != nil {
		all = append(all, table.WithEnd(access(ctx), errStopped)...)
	}
	return all
}

// tooOld returns the error of a watch that can't start. An expired error names both revisions.
func (r *reader) tooOld(w *watcher, err error) error {
	if errors.Is(err, errStopped) {
		return err
	}
	if !errors.Is(err, table.ErrExpired) {
		return expired(err)
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)",
		w.cursor, r.config.Table.Floor(r.view.lens.topics(w.query)...)))
}
