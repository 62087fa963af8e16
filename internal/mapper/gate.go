package mapper

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

// gate keeps the workers from changing anything while the hub says so, or while
// the target does not answer or its discovery is broken.
type gate struct {
	engine *engine
	target *target.Client
	log    *slog.Logger
	signal retry.Signal

	mu     sync.Mutex
	halt   string // what the hub says
	broken string // what is wrong with the target
}

func newGate(e *engine, t *target.Client, log *slog.Logger) *gate {
	g := &gate{engine: e, target: t, log: log, signal: retry.NewSignal(), broken: "the target has not been reached yet"}
	e.setClosed(g.broken)
	return g
}

// setHalt takes the hub's word on why the agent is to change nothing; empty: it works.
func (g *gate) setHalt(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why != g.halt {
		g.log.Info("the hub's word on whether to change anything has changed", "halt", why)
	}
	g.halt = why
	g.apply()
}

func (g *gate) setBroken(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if (why == "") != (g.broken == "") {
		g.log.Info("the target's health has changed", "broken", why)
	}
	g.broken = why
	g.apply()
}

func (g *gate) apply() {
	why := g.halt
	if why == "" {
		why = g.broken
	}
	g.engine.setClosed(why)
}

// why says why nothing is changed at the target; empty: it works.
func (g *gate) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.halt != "" {
		return g.halt
	}
	return g.broken
}

// trouble takes note of an error of the target. If it says that the target
// can't work, nothing more is asked of it until a probe succeeds; if it may mean
// that discovery is broken, a probe finds out. One that is only busy is a matter
// of the pace: a probe would be one request more. It does not wait.
func (g *gate) trouble(err error) {
	if err == nil || target.Busy(err) || !target.Unavailable(err) && !target.MissingKind(err) && !errors.Is(err, target.ErrAnswer) {
		return
	}
	if target.Unavailable(err) && target.RetryAfter(err) == 0 {
		g.setBroken(wire.Brief(err.Error()))
	}
	g.signal.Raise()
}

// run probes the target at the start and after each trouble, until ctx ends.
func (g *gate) run(ctx context.Context) {
	for {
		for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
			err := g.target.Probe(ctx)
			if err == nil {
				g.setBroken("")
				break
			}
			if ctx.Err() == nil && !target.Busy(err) { // or else nothing is known that was not before
				g.setBroken(wire.Brief(err.Error()))
			}
			retry.Pause(ctx, max(retry.Backoff(failures, retry.First, maxListRetry), target.RetryAfter(err)))
		}
		select {
		case <-g.signal:
		case <-ctx.Done():
			return
		}
	}
}
