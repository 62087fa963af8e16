package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/controllers"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/store"
)

// errNoMarker says that the log has no room for the hub's marker.
var errNoMarker = errors.New("the log has no room for the hub's marker; until it has, new revisions are not proven to agents")

// retryLoop is how long the hub waits before it retries what failed.
const retryLoop = time.Second

// phase says whether requests are served: not before the table is loaded and the hub's
// marker is in the log or found to have no room, and not while the table is lost. It is
// safe for concurrent use.
type phase struct {
	// wake receives when the table is loaded.
	wake chan struct{}

	mu sync.Mutex
	// epoch counts how often the table was lost or loaded.
	epoch         int
	loaded, ready bool
	// marked says that the marker of this epoch is in the log.
	marked bool
}

func newPhase() *phase { return &phase{wake: make(chan struct{}, 1)} }

// lose notes that the table is lost: no requests are served.
func (p *phase) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.loaded, p.ready, p.marked = false, false, false
}

func (p *phase) load() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.loaded, p.ready, p.marked = true, false, false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// now is the current epoch. todo says that its marker has yet to be written; again, that
// requests are served already and only the marker is missing.
func (p *phase) now() (epoch int, todo, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch, p.loaded && !p.marked, p.ready
}

// serve begins to serve requests, unless the epoch has passed. It says whether requests
// are served.
func (p *phase) serve(epoch int, marked bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == p.epoch {
		p.ready, p.marked = true, marked
	}
	return p.ready
}

func (p *phase) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// answering notes since when the log answers, by the requests to it. It is safe for
// concurrent use.
type answering struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	fails bool
}

func newAnswering(now func() time.Time) *answering { return &answering{now: now} }

// note notes the outcome of a request to the log.
func (a *answering) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.fails {
		a.since = a.now()
	}
	a.fails = err != nil
}

// state is since when the log answers, zero if it always did, and whether it does.
func (a *answering) state() (since time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since, !a.fails
}

// lost stops serving requests until the table is loaded again. restored says that the log
// was replaced by another one.
func (h *Hub) lost(restored bool) {
	h.phase.lose()
	h.answers.note(errors.New("the table is lost"))
	if restored {
		h.lineage.Distrust()
	}
}

// work waits for the table, calls ready once requests are served, and runs the loops.
func (h *Hub) work(ctx context.Context, ready func()) error {
	if err := h.serveLoaded(ctx); err != nil {
		return err
	}
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for { // the table was lost and loaded again
			if err := h.serveLoaded(ctx); err != nil {
				return err
			}
		}
	})
	for _, loop := range h.loops() {
		group.Go(func() error { return h.goOn(ctx, loop) })
	}
	return group.Wait()
}

// loops are what the hub does by itself while it runs. If several hubs share a log, only
// one of them may run the controllers.
func (h *Hub) loops() []func(context.Context) error {
	own := controllers.New(controllers.Config{
		Table: h.table, Log: h.log, Kinds: h.registry, Spaces: h.spaces, Limits: h.limits,
		Tally: h.tally, Pruned: h.pruned, Releases: h.releases, LeftOut: h.leftOut, Standing: h.standing, Changed: h.changed,
		Sessions: h.sessions, Connections: h.connections,
		Answers: func() time.Time { since, _ := h.answers.state(); return since }, Committed: h.waitCommitted,
		SpaceURL: h.spaceURL, Settle: h.config.Settle, RoomRetry: h.config.RoomRetry, Disconnected: h.config.Disconnected, Logger: h.config.Logger, Now: h.config.Now,
	})
	return append([]func(context.Context) error{h.agents.Run, h.compactLoop, h.reload, h.followKeys, h.log.Reseal, h.followIssuers}, own.Loops()...)
}

// compactLoop compacts history that nobody can resume from any more.
func (h *Hub) compactLoop(ctx context.Context) error {
	return h.log.Keep(ctx, store.Keeping{
		Every: h.config.CompactEvery,
		Floor: func() int64 {
			// What was kept by an older key is not to stay in the history either.
			return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest(), h.log.Resealed().Floor)
		},
		Reached: h.table.Rev,
		Before:  h.leaveTrace,
		Quiet:   h.config.Quiet,
	})
}

// goOn runs a loop until the context ends, and runs it again if it fails.
func (h *Hub) goOn(ctx context.Context, loop func(context.Context) error) error {
	for {
		err := loop(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.config.Logger.Error("a loop of the hub has ended, starting it again", "error", err)
		if err := pause(ctx, retryLoop); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serveLoaded waits until the table is loaded, and begins to serve requests. It fails
// only when the context ends: what the log refuses now it may accept later. Requests are
// served even if the log has no room for the marker, since deletions make room; the
// marker follows.
func (h *Hub) serveLoaded(ctx context.Context) error {
	for said := false; ; {
		losses := h.log.Losses()
		epoch, todo, again := h.phase.now()
		if h.log.Losses() != losses { // losses and epoch are of different tables
			continue
		}
		if !todo {
			select {
			case <-h.phase.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := h.begin(ctx, losses)
		full := respond.NoRoom(err)
		if full {
			if !again {
				h.config.Logger.Error("serving without a marker", "error", errNoMarker)
			}
			h.log.RefusedByEtcd()
			h.log.Resume(losses)
		}
		if (err == nil || full && !again) && h.phase.serve(epoch, err == nil) {
			h.answers.note(nil)
			return nil
		}
		if err != nil && !full && !said && ctx.Err() == nil {
			said = true
			h.config.Logger.Error("can't begin to serve, trying again", "error", err)
		}
		if err := pause(ctx, retryLoop); err != nil {
			return err
		}
	}
}

// begin writes the hub's marker, which tells a log that continues from an older copy from
// the one before, and creates what the hub needs. losses is how often the table was lost
// before the one that is served.
func (h *Hub) begin(ctx context.Context, losses int) error {
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	name, value, err := h.lineage.Begin(rand.Text(), h.config.Now())
	if err != nil {
		return err
	}
	rev, err := h.log.Begin(ctx, key.Marker(name), value, losses)
	if err != nil {
		return fmt.Errorf("write the hub's marker: %w", err)
	}
	if err := h.table.WaitFor(ctx, rev); err != nil {
		return err
	}
	return h.spaces.EnsureNamespace(ctx, key.Root, "default")
}

// leaveTrace writes the hub's marker again if the log would no longer show how far it
// reached once it is compacted up to floor. It writes nothing to a log without changes.
func (h *Hub) leaveTrace(ctx context.Context, floor int64) error {
	marker, hides := h.lineage.Hides(floor)
	if !hides {
		return nil
	}
	row, _ := h.table.Get(key.Marker(marker))
	if row == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	_, _, err := h.log.Put(ctx, row.Key, row.Value, row.ModRev)
	return err
}

// waitCommitted waits until the table shows everything that was acknowledged to anybody
// before the call. It fails for a request that the table would not let in any more then.
func (h *Hub) waitCommitted(ctx context.Context) error {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	rev, err := h.log.Committed(limited)
	// A client that leaves at once says nothing about the log.
	if err == nil || ctx.Err() == nil || time.Since(begun) > silence {
		h.answers.note(err)
	}
	if err != nil {
		return err
	}
	if err := h.table.WaitFor(limited, rev); err != nil {
		return err
	}
	return access.Confirm(ctx, h.table)
}

// silence is after which time a client that leaves without an answer shows that the log
// does not answer.
const silence = 2 * time.Second
