package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/controllers"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/store"
)

// errNoMarker says that there was no room for the marker of this beginning.
var errNoMarker = errors.New("the log has no room for it; what is new is not proven to agents until it has")

// retryLoop is how long the hub waits before it tries again what can't go on.
const retryLoop = time.Second

// phase says whether requests are let in: not before the table is loaded and the
// hub's marker is in the log, and not while the table is lost. It is safe for
// concurrent use.
type phase struct {
	// wake receives when the table is loaded.
	wake chan struct{}

	mu sync.Mutex
	// turn counts how often the table was lost or loaded.
	turn          int
	loaded, ready bool
	// marked says that the marker of this turn is in the log.
	marked bool
}

func newPhase() *phase { return &phase{wake: make(chan struct{}, 1)} }

// lose keeps requests out.
func (p *phase) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	p.loaded, p.ready, p.marked = false, false, false
}

func (p *phase) load() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	p.loaded, p.ready, p.marked = true, false, false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// now is the turn that is to be begun, if there is one. again says that requests are
// let in already, and only the marker is missing.
func (p *phase) now() (turn int, todo, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn, p.loaded && !p.marked, p.ready
}

// serve lets requests in, unless the table was lost since a turn.
func (p *phase) serve(turn int, marked bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if turn == p.turn {
		p.ready, p.marked = true, marked
	}
	return p.ready
}

func (p *phase) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// answering is since when the log answers, as far as somebody has asked. It is safe
// for concurrent use.
type answering struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	fails bool
}

func newAnswering(now func() time.Time) *answering { return &answering{now: now} }

// note takes the outcome of a question to the log.
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

// lost keeps requests out until the table is loaded again. restored says that the
// log is another one.
func (h *Hub) lost(restored bool) {
	h.phase.lose()
	h.answers.note(errors.New("the table is lost"))
	if restored {
		h.lineage.Distrust()
	}
}

// work waits for the table, makes the hub ready and runs the loops.
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

// loops are what the hub does by itself while it runs. The controllers write: if several
// hubs share a log, one of them is to run these.
func (h *Hub) loops() []func(context.Context) error {
	own := controllers.New(controllers.Config{
		Table: h.table, Log: h.log, Kinds: h.registry, Spaces: h.spaces, Limits: h.limits,
		Tally: h.tally, Pruned: h.pruned, Releases: h.releases, LeftOut: h.leftOut, Standing: h.standing, Changed: h.changed,
		Sessions: h.sessions, Connections: h.connections,
		Answers: func() time.Time { since, _ := h.answers.state(); return since }, Committed: h.waitCommitted,
		SpaceURL: h.spaceURL, Settle: h.config.Settle, RoomRetry: h.config.RoomRetry, Disconnected: h.config.Disconnected, Logger: h.config.Logger, Now: h.config.Now,
	})
	return append([]func(context.Context) error{h.agents.Run, h.compactLoop}, own.Loops()...)
}

// compactLoop forgets history that nobody can resume from any more.
func (h *Hub) compactLoop(ctx context.Context) error {
	return h.log.Keep(ctx, store.Keeping{
		Every: h.config.CompactEvery,
		Floor: func() int64 {
			return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest())
		},
		Reached: h.table.Rev,
		Before:  h.leaveTrace,
		Quiet:   h.config.Quiet,
	})
}

// goOn runs a loop until the context ends: whatever a loop fails by, the hub goes on.
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

// serveLoaded waits until the table is loaded, and lets requests in. It fails only
// when the context ends: what the log refuses now it may take later. A log without
// room for the marker is served all the same, since deletions make room; the marker
// follows.
func (h *Hub) serveLoaded(ctx context.Context) error {
	for said := false; ; {
		losses := h.log.Losses()
		turn, todo, again := h.phase.now()
		if h.log.Losses() != losses { // of another table than the turn
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
				h.config.Logger.Error("begin without a marker", "error", errNoMarker)
			}
			h.log.RefusedByEtcd()
			h.log.Resume(losses)
		}
		if (err == nil || full && !again) && h.phase.serve(turn, err == nil) {
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

// begin appends the marker of this beginning, by which a log that went on from an
// older copy is told from the one before, and what the hub needs to be there.
// losses is how often the table was lost before the one that is begun with.
func (h *Hub) begin(ctx context.Context, losses int) error {
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	name, value, err := h.lineage.Begin(rand.Text(), h.config.Now())
	if err != nil {
		return err
	}
	rev, err := h.log.Begin(ctx, key.Marker(name), value, losses)
	if err != nil {
		return fmt.Errorf("append the hub's marker: %w", err)
	}
	if err := h.table.WaitFor(ctx, rev); err != nil {
		return err
	}
	return h.spaces.EnsureNamespace(ctx, key.Root, "default")
}

// leaveTrace writes the hub's marker again if the log would not show how far it
// reached once history up to a revision is forgotten. A quiet log is not written to.
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

// waitCommitted makes the table show everything that was acknowledged to
// anybody before the call.
func (h *Hub) waitCommitted(ctx context.Context) error {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	rev, err := h.log.Committed(limited)
	// Who leaves at once says nothing about the log.
	if err == nil || ctx.Err() == nil || time.Since(begun) > silence {
		h.answers.note(err)
	}
	if err != nil {
		return err
	}
	return h.table.WaitFor(limited, rev)
}

// silence is how long the log may take to answer somebody who does not wait for it
// before it counts as away.
const silence = 2 * time.Second
