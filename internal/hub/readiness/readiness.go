// Package readiness is when a hub serves requests: once its table is loaded and its marker
// is in the log, or found to have no room there, and not while the table is lost. It also
// has each request wait until the table shows what was acknowledged before, and knows since
// when the log answers.
//
// It must never know what a request is about.
package readiness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/lineage"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// committedWait bounds how long a request waits for the table to show what
	// was acknowledged before it.
	committedWait = 10 * time.Second
	// silence is after which time a client that leaves without an answer shows that the
	// log does not answer.
	silence = 2 * time.Second
	// retryEvery is how long it takes until what failed is tried again.
	retryEvery = time.Second
)

// errNoMarker says that the log has no room for the hub's marker.
var errNoMarker = errors.New("the log has no room for the hub's marker; until it has, new revisions are not proven to agents")

// Config is what a Gate needs.
type Config struct {
	// Log fills Table, and Lineage observes that.
	Log     *etcd.Log
	Table   *table.Table
	Lineage *lineage.Lineage
	// Waited is told how long a request waited until the table showed what was acknowledged
	// before it.
	Waited func(time.Duration)
	// Silent says that the log has not answered for so long that others take the hub for dead.
	Silent func() bool
	// Confirm fails for a request that the table would not let in any more.
	Confirm func(context.Context) error
	// Logger gets why nothing is served.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Gate lets requests in when they can be served. It is safe for concurrent use.
type Gate struct {
	config  Config
	phase   *phase
	answers *answering
}

// New makes a Gate, which is closed.
func New(config Config) *Gate {
	return &Gate{config: config, phase: newPhase(), answers: newAnswering(config.Now)}
}

// Hooks are how the tail of the log tells of itself.
func (g *Gate) Hooks() etcd.Hooks {
	return etcd.Hooks{Lost: g.lost, Loaded: g.phase.load, Asked: g.answers.note}
}

// lost stops serving requests until the table is loaded again. restored says that the log
// was replaced by another one.
func (g *Gate) lost(restored bool) {
	g.phase.lose()
	g.answers.note(errors.New("the table is lost"))
	if restored {
		g.config.Lineage.Distrust()
	}
}

// Open waits until the table is loaded, and begins to serve requests; it does so anew
// whenever it is called again. prepare creates what the hub needs in the log. It fails only
// when the context ends: what the log refuses now it may accept later. Requests are
// served even if the log has no room for the marker, since deletions make room; the
// marker follows.
func (g *Gate) Open(ctx context.Context, prepare func(context.Context) error) error {
	for said := false; ; {
		losses := g.config.Log.Losses()
		epoch, todo, again := g.phase.now()
		if g.config.Log.Losses() != losses { // losses and epoch are of different tables
			continue
		}
		if !todo {
			select {
			case <-g.phase.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := g.begin(ctx, losses, prepare)
		full := respond.NoRoom(err)
		if full {
			if !again {
				g.config.Logger.Error("serving without a marker", "error", errNoMarker)
			}
			g.config.Log.RefusedByEtcd()
			g.config.Log.Resume(losses)
		}
		if (err == nil || full && !again) && g.phase.serve(epoch, err == nil) {
			g.answers.note(nil)
			return nil
		}
		if err != nil && !full && !said && ctx.Err() == nil {
			said = true
			g.config.Logger.Error("can't begin to serve, trying again", "error", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin writes the hub's marker, which tells a log that continues from an older copy from
// the one before, and creates what the hub needs. losses is how often the table was lost
// before the one that is served.
func (g *Gate) begin(ctx context.Context, losses int, prepare func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	name, value, err := g.config.Lineage.Begin(rand.Text(), g.config.Now(), !g.config.Log.Embedded())
	if err != nil {
		return err
	}
	rev, err := g.config.Log.Begin(ctx, key.Marker(name), value, losses)
	if err != nil {
		return fmt.Errorf("write the hub's marker: %w", err)
	}
	if err := g.config.Table.WaitFor(ctx, rev); err != nil {
		return err
	}
	if err := g.settle(ctx, name); err != nil {
		return err
	}
	return prepare(ctx)
}

// settle has the hub's marker say how far the log was right before it, if others may have
// written meanwhile.
func (g *Gate) settle(ctx context.Context, marker string) error {
	value, open, err := g.config.Lineage.Settle(marker)
	row, _ := g.config.Table.Get(key.Marker(marker))
	if err != nil || !open || row == nil {
		return err
	}
	rev, _, err := g.config.Log.Put(ctx, row.Key, value, row.ModRev)
	if err != nil {
		return fmt.Errorf("write how far the log was before the hub's marker: %w", err)
	}
	return g.config.Table.WaitFor(ctx, rev)
}

// LeaveTrace writes the hub's marker again if the log would no longer show how far it
// reached once it is compacted up to floor. It writes nothing to a log without changes.
func (g *Gate) LeaveTrace(ctx context.Context, floor int64) error {
	marker, hides := g.config.Lineage.Hides(floor)
	if !hides {
		return nil
	}
	row, _ := g.config.Table.Get(key.Marker(marker))
	if row == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	_, _, err := g.config.Log.Put(ctx, row.Key, row.Value, row.ModRev)
	return err
}

// Committed waits until the table shows everything that was acknowledged to anybody before
// the call. It fails for a request that the table would not let in any more then.
func (g *Gate) Committed(ctx context.Context) error {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	rev, err := g.config.Log.Committed(limited)
	g.heard(ctx, err, time.Since(begun))
	if err != nil {
		return err
	}
	err = g.config.Table.WaitFor(limited, rev)
	g.config.Waited(time.Since(begun))
	if err != nil {
		return err
	}
	return g.config.Confirm(ctx)
}

// heard notes what the outcome of a request says about the log. A client that leaves at once says
// nothing about it, nor does what an embedded one answered to others: it was not asked.
func (g *Gate) heard(ctx context.Context, err error, after time.Duration) {
	switch {
	case err == nil && g.config.Log.Embedded():
	case err == nil, ctx.Err() == nil, after > silence:
		g.answers.note(err)
	}
}

// Answers is since when the log answers; zero if it always did, and now if it does not.
func (g *Gate) Answers() time.Time {
	since, ok := g.answers.state()
	if !ok {
		return g.config.Now()
	}
	return since
}

// Asked is Committed that fails, too, if the log does not answer: one that is embedded is not asked
// by Committed.
func (g *Gate) Asked(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	if err := g.config.Log.Ask(limited); err != nil {
		return err
	}
	return g.Committed(ctx)
}

// Handler refuses requests while the gate is closed.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.phase.serves() {
			w.Header().Set("Connection", "close") // a balancer has a hub that serves for the next
			respond.Error(w, r, respond.NotNow("the hub is loading its log"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Ready says whether requests are served and the log answers.
func (g *Gate) Ready() bool {
	_, ok := g.answers.state()
	return ok && g.phase.serves() && !g.config.Silent()
}

// ServeReady says whether requests are served.
func (g *Gate) ServeReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(wire.Header, wire.ProtocolVersion) // agents know a hub by it
	if !g.phase.serves() {
		http.Error(w, "loading the log", http.StatusServiceUnavailable)
		return
	}
	if _, ok := g.answers.state(); !ok || g.config.Silent() {
		http.Error(w, "the log does not answer", http.StatusServiceUnavailable)
		return
	}
	answer := "ok"
	if u := g.config.Log.Usage(); u.Full {
		// The hub stays ready: reads and deletions work, and deletions make room.
		answer = "ok, but the log is out of space: " + u.Why
	}
	_, _ = io.WriteString(w, answer) // a client that is gone needs no answer
}
