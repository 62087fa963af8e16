package mapper

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/hub"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

// A store that is new knows nothing of what an older one has made. Most of it the hub
// tells: what is desired or was reported says which kinds to observe, and a list of a
// kind shows all that is ours. What nobody tells of, a hub that was restored from an
// older copy, or an object that was made right before the loss and dropped since, is
// of a kind that may not be in use any more: no list would ever show it.
//
// So the target is searched once for each new store. The search does nothing at the
// target and decides nothing: it finds which kinds have something of ours, and has
// them observed. From there on everything is as with any stray: it is removed if it is
// proven to be of the hub's log, if it is no other object's alias, and if the guard of
// removals lets it go. Nobody waits for the search. It goes on after a restart, until
// all that it found is on record or gone; what has to wait is found again.

const (
	// surveyLook is how often a search that waits looks whether it may go on, and
	// surveyPatience how long it lets all other work go first.
	surveyLook     = time.Second
	surveyPatience = time.Minute
	// surveyPause is between two lists, which nobody waits for.
	surveyPause = 50 * time.Millisecond
	// surveyRetry and maxSurveyRetry are how long to wait, first and at most, until
	// what could not be listed is tried again, and surveyRounds how often it is tried.
	surveyRetry    = time.Minute
	maxSurveyRetry = time.Hour
	surveyRounds   = 10
	// namedMissed bounds how many resources the log names at once.
	namedMissed = 20
)

// survey finds the kinds of ours that a new store knows nothing of.
type survey struct {
	finder
	store *store.Store
	state *hub.State
	log   *slog.Logger
	// stopped says why nothing is asked of the target now; empty: it is.
	stopped func() string

	// looked are the resources that were listed, tried how often that failed.
	looked map[key.Resource]struct{}
	tried  map[key.Resource]int
}

// run searches if the store is new, until that is done or ctx ends.
func (s *survey) run(ctx context.Context) {
	if !s.store.Meta().Survey {
		return
	}
	s.looked, s.tried = map[key.Resource]struct{}{}, map[key.Resource]int{}
	for round := uint8(0); ctx.Err() == nil; round++ {
		s.turn(ctx)
		missed := s.round(ctx)
		if ctx.Err() != nil || len(missed) == 0 {
			break
		}
		if round+1 == surveyRounds {
			s.log.Warn("some of the target could not be searched: what is there of the location, and neither store nor hub know, stays", "resources", firstMissed(missed))
			break
		}
		wait := retry.Backoff(round, surveyRetry, maxSurveyRetry)
		s.log.Info("some of the target cannot be searched now for what neither store nor hub know", "resources", firstMissed(missed), "retry", wait)
		retry.Pause(ctx, wait)
	}
	s.conclude(ctx)
}

// firstMissed names the first of what was missed.
func firstMissed(missed []string) string {
	slices.Sort(missed)
	if more := len(missed) - namedMissed; more > 0 {
		missed = append(missed[:namedMissed:namedMissed], "...")
	}
	return strings.Join(missed, ", ")
}

// turn waits until the hub has said what is desired and nothing is to be done, or was
// for long enough.
func (s *survey) turn(ctx context.Context) {
	var known time.Time
	for ; ctx.Err() == nil; retry.Pause(ctx, surveyLook) {
		if !s.state.Known() || s.stopped() != "" {
			continue
		}
		if known.IsZero() {
			known = time.Now()
		}
		if s.engine.calm() || time.Since(known) >= surveyPatience {
			return
		}
	}
}

// round lists what was not listed yet and is not observed anyhow, and returns what it
// could not list. What failed is the last to be tried, and of a group that does not
// answer nothing else is: each request may take its whole time.
func (s *survey) round(ctx context.Context) (missed []string) {
	all, err := s.target.Removable(ctx)
	if err != nil {
		missed = append(missed, wire.Brief(err.Error()))
	}
	slices.SortStableFunc(all, func(a, b target.Served) int { return s.tried[a.Resource] - s.tried[b.Resource] })
	silent := map[string]struct{}{}
	for _, of := range all {
		_, done := s.looked[of.Resource]
		if done || isEvent(of.Resource) || s.engine.observes(of.Resource) {
			continue
		}
		if _, mute := silent[of.APIGroup()]; mute {
			missed = append(missed, of.String())
			continue
		}
		if retry.Pause(ctx, surveyPause); ctx.Err() != nil {
			return missed
		}
		err := s.one(ctx, of)
		if err == nil {
			s.looked[of.Resource] = struct{}{}
			continue
		}
		s.log.Debug("a resource cannot be searched now", "resource", of.String(), "error", err)
		missed = append(missed, of.String())
		s.tried[of.Resource]++
		if target.Unavailable(err) {
			silent[of.APIGroup()] = struct{}{}
		}
	}
	return missed
}

// isEvent says that a resource is that of Events, which no hub ever places, and of
// which there may be very many.
func isEvent(r key.Resource) bool {
	return r.Resource == "events" && (r.APIGroup() == "" || r.APIGroup() == "events.k8s.io")
}

// conclude waits until all that was found is on record or gone, and takes note that
// the target was searched. Before that a restart would forget what was found.
func (s *survey) conclude(ctx context.Context) {
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		open, err := s.open()
		if err == nil && !open {
			err = s.store.Write(ctx, func(t *store.Tx) error {
				t.Surveyed()
				return nil
			})
			if err == nil {
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("that the target was searched cannot be taken note of", "error", err)
		}
		retry.Pause(ctx, retry.Backoff(failures, surveyLook, surveyPatience))
	}
}

// open says that something may be at the target that is neither desired nor on record.
func (s *survey) open() (open bool, err error) {
	m := s.store.Meta()
	if m.Revision == 0 || m.Fresh || m.Deferred > 0 || !s.state.Proves() || !s.engine.judged() {
		return true, nil
	}
	strays := s.engine.strays()
	err = s.store.View(func(t *store.Tx) error {
		open = slices.ContainsFunc(strays, func(id string) bool { return !t.HasRecord(id) })
		return nil
	})
	return open, err
}

// calm says that nothing is to be done now.
func (e *engine) calm() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	running := slices.ContainsFunc(slices.Collect(maps.Values(e.kinds)), func(k *kind) bool { return k.running > 0 })
	return e.queue.count == 0 && !running
}

// observes says that a resource is observed, which shows all that is ours.
func (e *engine) observes(r key.Resource) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[r]
	return k != nil && k.version != ""
}

// strays are the identities of what is at the target, ours and not desired.
func (e *engine) strays() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, it := range e.items {
		if it.stray() {
			all = append(all, id)
		}
	}
	return all
}
