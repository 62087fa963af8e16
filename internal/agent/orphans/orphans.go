package orphans

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// A new store has no record of the objects that the agent made with an earlier store. The hub has most of this
// knowledge: desired objects and reports name the kinds to observe, and the list of a kind returns all objects
// of ours. But the hub does not know all objects if it was restored from an older copy, or if the store was lost
// right after an apply of objects that are not desired any more. If no other object of their kind is in use, no
// list would ever return them.
//
// So the agent searches the target once for each new store. The search changes no object: it finds the kinds
// that have objects of ours, and the agent then observes these kinds. Their unknown objects are removed if they
// were written from the hub's log, are no aliases of other objects, and the removal guard allows it. Nothing
// waits for the search. A restart repeats it, until all objects that it found are recorded or deleted.
//
// A target whose revisions went back is searched, too: its snapshot may have objects of kinds that are not in
// use any more.

const (
	// scanInterval is the interval at which a waiting search checks whether it may continue. scanTimeout is the
	// time for which it gives precedence to other work.
	scanInterval = time.Second
	scanTimeout  = time.Minute
	// scanPause is the wait between two lists. It limits the load.
	scanPause = 50 * time.Millisecond
	// scanRetry is the first wait before kinds that could not be listed are listed again.
	scanRetry = time.Minute
	// MaxRetry is the longest such wait.
	MaxRetry = time.Hour
	// Rounds is the number of attempts to list a kind.
	Rounds = 10
	// namedMissed bounds the number of resources in one log line.
	namedMissed = 20
)

// Scanner finds kinds with objects of ours that a new store does not have.
type Scanner struct {
	finder
	state *hubclient.State
	log   *slog.Logger
	// gate reports whether the agent may send requests to the target now.
	gate *observe.Gate

	// searched are the resources that were listed, tried counts failures of the others.
	searched map[key.Resource]struct{}
	tried    map[key.Resource]int
	// anew is raised when the target must be searched again.
	anew retry.Signal
}

// New returns a Scanner, which searches the target for a new store.
func New(e *worklist.Worklist, t *kubeclient.Client, st *store.Store, state *hubclient.State, g *observe.Gate, log *slog.Logger) *Scanner {
	return &Scanner{finder: finder{engine: e, target: t, store: st}, state: state, gate: g, log: log, anew: retry.NewSignal()}
}

// Again requests another search of the target, which the next process makes if this one ends before. It waits
// for space in the store's queue. If the store can't be written, only this process searches.
func (s *Scanner) Again(ctx context.Context) {
	if err := s.store.Submit(ctx, &store.Commit{
		Do:   func(t *store.Tx) error { t.Target.RequestSearch(); return nil },
		Done: s.anew.Raise, Failed: func(error) { s.anew.Raise() },
	}); err != nil {
		s.log.Debug("the agent ends before the target is searched", "error", err)
	}
}

// Run searches if the store is new, and after each call of Again, until ctx ends.
func (s *Scanner) Run(ctx context.Context) {
	if m := s.store.Meta(); m.SearchPending || m.Inherits {
		s.search(ctx)
	}
	for {
		select {
		case <-s.anew:
			s.search(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// search searches until all resources were listed, or ctx ends.
func (s *Scanner) search(ctx context.Context) {
	s.searched, s.tried = map[key.Resource]struct{}{}, map[key.Resource]int{}
	for round := uint8(0); ctx.Err() == nil; round++ {
		s.turn(ctx)
		missed := s.round(ctx)
		if ctx.Err() != nil || len(missed) == 0 {
			break
		}
		if round+1 == Rounds {
			s.log.Warn("some resources could not be searched; objects of this location in them that neither store nor hub know stay", "resources", firstMissed(missed))
			break
		}
		wait := retry.Backoff(round, scanRetry, MaxRetry)
		s.log.Info("some resources cannot be searched now for objects that neither store nor hub know", "resources", firstMissed(missed), "retry", wait)
		retry.Pause(ctx, wait)
	}
	s.conclude(ctx)
}

// firstMissed returns the first of the resources that could not be searched.
func firstMissed(missed []string) string {
	slices.Sort(missed)
	if more := len(missed) - namedMissed; more > 0 {
		missed = append(missed[:namedMissed:namedMissed], "...")
	}
	return strings.Join(missed, ", ")
}

// turn waits until the agent has all desired objects and the workers are idle. It waits for idle workers no
// longer than scanTimeout.
func (s *Scanner) turn(ctx context.Context) {
	var known time.Time
	for ; ctx.Err() == nil; retry.Pause(ctx, scanInterval) {
		if !s.state.Known() || s.gate.Why() != "" {
			continue
		}
		if known.IsZero() {
			known = time.Now()
		}
		if s.engine.Count().IsIdle() || time.Since(known) >= scanTimeout {
			return
		}
	}
}

// round lists the resources that were not listed yet and are not observed. It returns those that it could not
// list. Resources that failed before come last. A group that does not answer gets no further request in the
// round, since each may take until its timeout.
func (s *Scanner) round(ctx context.Context) (missed []string) {
	all, err := s.target.Removable(ctx)
	if err != nil {
		missed = append(missed, wire.Brief(err.Error()))
	}
	slices.SortStableFunc(all, func(a, b kubeclient.Served) int { return s.tried[a.Resource] - s.tried[b.Resource] })
	silent := map[string]struct{}{}
	for _, served := range all {
		_, done := s.searched[served.Resource]
		if done || kubeclient.IsEvent(served.Resource) || s.observed(served.Resource) {
			continue
		}
		if _, mute := silent[served.APIGroup()]; mute {
			missed = append(missed, served.String())
			continue
		}
		if retry.Pause(ctx, scanPause); ctx.Err() != nil {
			return missed
		}
		err := s.one(ctx, served)
		if err == nil {
			s.searched[served.Resource] = struct{}{}
			continue
		}
		s.log.Debug("a resource cannot be searched now", "resource", served.String(), "error", err)
		missed = append(missed, served.String())
		s.tried[served.Resource]++
		if kubeclient.Unavailable(err) {
			silent[served.APIGroup()] = struct{}{}
		}
	}
	return missed
}

// observed reports whether the agent observes a resource. Its list then returns all objects of ours.
func (s *Scanner) observed(r key.Resource) bool {
	_, used := s.engine.Uses()[r]
	return used
}

// conclude waits until all objects that were found are recorded or deleted. Then it records in the store that
// the target was searched. A restart before that searches again.
func (s *Scanner) conclude(ctx context.Context) {
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		open, err := s.open()
		if err == nil && !open {
			err = s.store.Write(ctx, func(t *store.Tx) error {
				t.Target.SetSearched()
				return nil
			})
			if err == nil {
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the store cannot note that the target has been searched", "error", err)
		}
		retry.Pause(ctx, retry.Backoff(failures, scanInterval, scanTimeout))
	}
}

// open reports whether the target may have objects of ours that are neither desired nor recorded.
func (s *Scanner) open() (open bool, err error) {
	m := s.store.Meta()
	if m.Revision == 0 || m.Fresh || m.Deferred > 0 || !s.state.Proves() || !s.engine.Count().IsComplete() {
		return true, nil
	}
	strays := s.engine.Those((*worklist.Item).Stray)
	err = s.store.View(func(t *store.Tx) error {
		open = slices.ContainsFunc(strays, func(o key.Located) bool { return !t.Records.Contains(o.Identity.String()) })
		return nil
	})
	return open, err
}
