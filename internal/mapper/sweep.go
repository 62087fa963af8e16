package mapper

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/key"
)

const (
	// sweepPause is between two lists of a sweep, which nobody waits for.
	sweepPause = 50 * time.Millisecond
	// sweepLook is how often a sweep that waits looks whether it may go on.
	sweepLook = time.Second
)

// search finds objects of ours at the target, of whatever kind.
type search struct {
	engine *engine
	target *target
	self   func() identity
}

// kind makes items of all objects of a resource that prove to be ours.
func (s *search) kind(ctx context.Context, of served) error {
	query := url.Values{"labelSelector": {locationLabel + "=" + string(s.self())}, "limit": {strconv.Itoa(listPage)}}
	for {
		l, err := s.target.list(ctx, of.place, "", query, false)
		if missingKind(err) {
			return nil // it went meanwhile, with its objects
		}
		if err != nil {
			return err
		}
		var ours []sighting
		for i := range l.Items {
			if seen := sightOf(&l.Items[i], of, s.self()); seen.ours {
				ours = append(ours, seen)
			}
		}
		s.engine.adopt(of, ours)
		if l.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", l.Metadata.Continue)
	}
}

// adopt makes items of objects that nothing else explains, so that their kind is
// observed and they are removed.
func (e *engine) adopt(of served, ours []sighting) {
	if len(ours) == 0 {
		return
	}
	e.mu.Lock()
	for i := range ours {
		s := &ours[i]
		it, _ := e.item(s.object)
		if !slices.Contains(it.spaces, s.object.Space) {
			it.spaces = append(it.spaces, s.object.Space)
		}
		k := it.kind
		if k.version == "" {
			k.version, k.name = of.version, of.kind
		}
		if !it.wanted && k.sight != absent && it.seen.revision < s.seen.revision {
			it.seen, it.found = s.seen, true
			it.seen.presence = present
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
	e.mu.Unlock()
	e.kindsChanged()
}

// sweep searches the target once for each new store. What an agent made before it
// lost its store, and did not come to report, is in neither desired content nor
// reports if the hub has dropped it since; if nothing else of its kind is desired
// either, no list would ever show it.
//
// It begins when what is desired and what was reported is known, in proven lineage,
// and rests whenever nothing may be changed. It changes nothing itself: what it
// finds is removed as any object of ours that is not desired. An agent that is
// killed meanwhile sweeps from the beginning.
type sweep struct {
	search
	store   *store
	log     *slog.Logger
	trouble func(error)
	// may says whether it may work now.
	may func() bool

	begun bool
	// left are the resources that are yet to be listed, closed those that nobody lets
	// it list.
	left   []served
	closed []string
}

// run sweeps if the store is new, until that is done or ctx ends.
func (s *sweep) run(ctx context.Context) {
	var failures uint8
	for ctx.Err() == nil && s.store.meta.Load().Unswept {
		if !s.may() {
			pause(ctx, sweepLook)
			continue
		}
		if err := s.step(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("the search for objects from before the store was made does not come on", "error", err)
			s.trouble(err)
			pause(ctx, max(backoff(failures, firstRetry, blindRetry), retryAfter(err)))
			failures = min(failures+1, maxFailures)
			continue
		}
		failures = 0
	}
}

// step does the next part of the sweep.
func (s *sweep) step(ctx context.Context) (err error) {
	switch {
	case !s.begun:
		s.left, err = s.target.removable(ctx)
		s.begun = err == nil
		return err
	case len(s.left) > 0:
		return s.next(ctx)
	}
	if open, err := s.open(); err != nil || open {
		pause(ctx, sweepLook)
		return err
	}
	if len(s.closed) > 0 {
		s.log.Warn("some resources cannot be listed, so objects of them from before the store was made are not found", "resources", s.closed)
	}
	return s.store.write(ctx, func(t *tx) error {
		t.meta.Unswept, t.meta.Unsearched = false, s.closed
		return nil
	})
}

// next lists one resource, unless it is observed anyhow. One that cannot be listed
// now is the last to be tried again.
func (s *sweep) next(ctx context.Context) error {
	of := s.left[0]
	s.left = s.left[1:]
	// Events are never sent by a hub, and there may be very many.
	if of.Resource == key.NewResource("", "events") || s.engine.lists(of.Resource) {
		return nil
	}
	pause(ctx, sweepPause)
	switch err := s.kind(ctx, of); {
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		s.closed = append(s.closed, of.Resource.String())
	case err != nil:
		s.left = append(s.left, of)
		return err
	}
	return nil
}

// open says that something was found that is not recorded yet.
func (s *sweep) open() (open bool, err error) {
	found := s.engine.strays()
	err = s.store.view(func(t *tx) error {
		for _, id := range found {
			rec, err := t.record(id)
			if err != nil {
				return err
			}
			open = open || rec == nil
		}
		return nil
	})
	return open, err
}

// lists says whether all objects of ours of a resource are known.
func (e *engine) lists(r key.Resource) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[r]
	return k != nil && k.sight == absent
}

// strays are the identities of objects at the target that are ours and not desired.
func (e *engine) strays() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, it := range e.items {
		if !it.wanted && it.seen.presence == present {
			all = append(all, id)
		}
	}
	return all
}
