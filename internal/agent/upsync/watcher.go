package upsync

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// listRetry is the longest wait before a list or watch is repeated, blindRetry the longest for a kind that the
	// agent may not read.
	listRetry  = 15 * time.Second
	blindRetry = 5 * time.Minute
)

// watcher lists and watches one kind.
type watcher struct {
	*Syncer
	kind   *kind
	cancel context.CancelFunc
	done   chan struct{}
	anew   retry.Signal
}

func (c *Syncer) watch(ctx context.Context, k *kind) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{Syncer: c, kind: k, cancel: cancel, done: make(chan struct{}), anew: retry.NewSignal()}
	go w.run(ctx)
	return w
}

// stop ends the watcher and waits for it, so that none of its events arrives after those of its successor. The
// caller must not hold mu.
func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// again requests another list of the kind.
func (w *watcher) again() { w.anew.Raise() }

// run observes until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	revision := ""
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		var err error
		if revision == "" {
			revision, err = w.list(ctx)
		}
		if err == nil {
			listed := revision
			if revision, err = w.follow(ctx, revision); revision != listed {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		wait := retry.Backoff(failures, retry.First, listRetry)
		switch {
		case err == nil: // the watch ended, or another list was requested
		case kubeclient.MissingKind(err):
			revision = ""
			w.missing.Store(true)
			w.replan.Raise()
		case unreadable(err):
			revision = ""
			w.unreadable(ctx, err)
			wait = retry.Backoff(failures, retry.First, blindRetry) // a permission may be granted soon, or never
		case kubeclient.Expired(err):
			revision = ""
		default:
			w.log.Info("list or watch of a requested kind ended", "resource", w.kind.String(), "error", err)
			w.gate.Trouble(err)
			if kubeclient.Outage(err) {
				revision = ""
			}
		}
		retry.Pause(ctx, max(wait, kubeclient.RetryAfter(err)))
	}
}

func unreadable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err) || errors.Is(err, kubeclient.ErrAnswer)
}

// follow watches until the watch ends, or another list is requested: then the revision is empty.
func (w *watcher) follow(ctx context.Context, revision string) (string, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	anew := make(chan bool, 1)
	go func() {
		select {
		case <-w.anew:
			cancel()
			anew <- true
		case <-inner.Done():
			anew <- false
		}
	}()
	revision, err := w.target.FollowAll(inner, w.kind.Place, "", revision, w.kind.full, func(o *ownership.Answer, gone bool) error {
		if gone {
			w.with(ctx, func(l *ledger) {
				if l.graph.kinds[w.kind.Resource] == w.kind {
					l.gone(w.kind, o.Metadata.Namespace, o.Metadata.Name)
				}
			})
			return nil
		}
		w.show(ctx, w.kind, []ownership.Answer{*o}, map[*node]struct{}{})
		return nil
	})
	cancel()
	if <-anew {
		return "", nil
	}
	return revision, err
}

// list reads all objects and returns the list's revision.
func (w *watcher) list(ctx context.Context) (string, error) {
	select {
	case w.listing <- struct{}{}:
		defer func() { <-w.listing }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	seen := map[*node]struct{}{}
	revision, err := w.target.PagesAll(ctx, w.kind.Place, w.kind.full, func(page []ownership.Answer) error {
		w.show(ctx, w.kind, page, seen)
		return nil
	})
	if err != nil {
		return "", err
	}
	w.with(ctx, func(l *ledger) {
		if l.graph.kinds[w.kind.Resource] == w.kind {
			l.listed(w.kind, seen)
			delete(w.unread, w.kind.Resource)
		}
	})
	return revision, nil
}

// unreadable records that the kind can't be read.
func (w *watcher) unreadable(ctx context.Context, err error) {
	w.log.Warn("a requested resource cannot be read; its earlier reports stay", "resource", w.kind.String(), "error", err)
	w.with(ctx, func(l *ledger) {
		if l.graph.kinds[w.kind.Resource] == w.kind {
			w.unread[w.kind.Resource] = wire.Brief(err.Error())
		}
	})
}
