// Package readiness decides when a hub serves requests: once its table is loaded, and its marker is
// in the log or the log is full, and not while the table is lost. It also lets each request wait
// until the table contains all earlier writes, and knows since when the log responds.
//
// It must not depend on the content of requests.
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
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// committedWait is the maximum time that a request waits until the table contains all earlier
	// writes.
	committedWait = 10 * time.Second
	// silence is the time after which a client that disconnects without a response is evidence that
	// the log does not respond.
	silence = 2 * time.Second
	// retryEvery is the interval of retries after a failure.
	retryEvery = time.Second
)

// errNoMarker is returned if the log has no space for the hub's marker.
var errNoMarker = errors.New("the log has no room for the hub's marker; until it has, new revisions are not proven to agents")

// Config configures a Gate.
type Config struct {
	// Log fills Table, and LogIdentity observes it.
	Log         *etcd.Log
	Table       *table.Table
	LogIdentity *logidentity.Identity
	// Waited is called with the time that a request waited for the table.
	Waited func(time.Duration)
	// Silent reports whether the log has not responded for so long that other hubs consider this
	// one dead.
	Silent func() bool
	// Confirm fails for a request that the present table would no longer authorize.
	Confirm func(context.Context) error
	// Logger logs the reason why no requests are served.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Gate admits requests when they can be served. It is safe for concurrent use.
type Gate struct {
	config  Config
	phase   *phase
	answers *answering
}

// New returns a Gate, which is closed.
func New(config Config) *Gate {
	return &Gate{config: config, phase: newPhase(), answers: newAnswering(config.Now)}
}

// Hooks returns the callbacks for the log.
func (g *Gate) Hooks() etcd.Hooks {
	return etcd.Hooks{Lost: g.lost, Loaded: g.phase.load, Probed: g.answers.record}
}

// lost stops serving requests until the table is loaded again. restored reports that the log was
// replaced by another one.
func (g *Gate) lost(restored bool) {
	g.phase.lose()
	g.answers.record(errors.New("the table is lost"))
	if restored {
		g.config.LogIdentity.Distrust()
	}
}

// Open waits until the table is loaded, and starts serving requests; it can be called again.
// prepare creates the hub's own objects in the log. Open fails only when the context ends, since
// the log may later accept what it refuses now. Requests are served even if the log has no space
// for the marker, since deletions free space; the marker is written later.
func (g *Gate) Open(ctx context.Context, prepare func(context.Context) error) error {
	for logged := false; ; {
		losses := g.config.Log.Continuity().Losses()
		epoch, todo, again := g.phase.now()
		if g.config.Log.Continuity().Losses() != losses { // losses and epoch belong to different tables
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
			g.config.Log.Capacity().RefusedByEtcd()
			g.config.Log.Continuity().Resume(losses)
		}
		if (err == nil || full && !again) && g.phase.serve(epoch, err == nil) {
			g.answers.record(nil)
			return nil
		}
		if err != nil && !full && !logged && ctx.Err() == nil {
			logged = true
			g.config.Logger.Error("can't begin to serve, trying again", "error", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin writes the hub's marker, and creates the hub's own objects. The marker distinguishes a log
// that continues from an older copy from the original. losses is how often the table was lost
// before the present one.
func (g *Gate) begin(ctx context.Context, losses int, prepare func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	name, value, err := g.config.LogIdentity.Begin(rand.Text(), g.config.Now(), !g.config.Log.Embedded())
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
	if err := g.completeMarker(ctx, name); err != nil {
		return err
	}
	return prepare(ctx)
}

// completeMarker records in the hub's marker up to which revision the log was valid before it, in case
// other hubs have written in the meantime.
func (g *Gate) completeMarker(ctx context.Context, marker string) error {
	value, open, err := g.config.LogIdentity.Complete(marker)
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

// LeaveTrace writes the hub's marker again if a compaction up to floor would remove the evidence of
// the log's last revision. It writes nothing to a log without changes.
func (g *Gate) LeaveTrace(ctx context.Context, floor int64) error {
	marker, hides := g.config.LogIdentity.Hides(floor)
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

// Committed waits until the table contains all writes that any client knew before the call. It
// fails for a request that the table would no longer authorize.
func (g *Gate) Committed(ctx context.Context) error {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	rev, err := g.config.Log.Committed(limited)
	g.recordAnswer(ctx, err, time.Since(begun))
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

// recordAnswer records what the result of a request shows about the log. A client that disconnects early
// shows nothing. Neither do requests that an embedded log did not have to answer.
func (g *Gate) recordAnswer(ctx context.Context, err error, after time.Duration) {
	switch {
	case err == nil && g.config.Log.Embedded():
	case err == nil, ctx.Err() == nil, after > silence:
		g.answers.record(err)
	}
}

// Answers returns since when the log responds; zero if it always did, and now if it does not.
func (g *Gate) Answers() time.Time {
	since, ok := g.answers.state()
	if !ok {
		return g.config.Now()
	}
	return since
}

// CommittedWithPing is Committed, but also fails if an embedded log does not respond, to which
// Committed sends no request.
func (g *Gate) CommittedWithPing(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, committedWait)
	defer cancel()
	if err := g.config.Log.Ping(limited); err != nil {
		return err
	}
	return g.Committed(ctx)
}

// Handler refuses requests while the gate is closed.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.phase.serves() {
			w.Header().Set("Connection", "close") // makes a load balancer choose another hub for the next request
			respond.Error(w, r, respond.NotNow("the hub is loading its log"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Ready reports whether requests are served and the log responds.
func (g *Gate) Ready() bool {
	_, ok := g.answers.state()
	return ok && g.phase.serves() && !g.config.Silent()
}

// ServeReady responds whether requests are served.
func (g *Gate) ServeReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(wire.Header, wire.ProtocolVersion) // agents recognize a hub by this header
	if !g.phase.serves() {
		http.Error(w, "loading the log", http.StatusServiceUnavailable)
		return
	}
	if _, ok := g.answers.state(); !ok || g.config.Silent() {
		http.Error(w, "the log does not answer", http.StatusServiceUnavailable)
		return
	}
	answer := "ok"
	if u := g.config.Log.Capacity().Usage(); u.Full {
		// The hub stays ready: reads and deletions work, and deletions free space.
		answer = "ok, but the log is out of space: " + u.Why
	}
	_, _ = io.WriteString(w, answer) // errors of the connection are ignored
}
