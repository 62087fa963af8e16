package observe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// probeTimeout is how long a target may take to answer a probe.
	probeTimeout = 20 * time.Second
	// unavailableAfter is how long a target may not answer before it counts as unavailable, so that
	// the restart of an API server makes nothing stale.
	unavailableAfter = 15 * time.Second
	// storeSilence is for how long no watch may show a later revision before the gate reads from the target's
	// store. Bookmarks come once a minute, so a cluster whose etcd is written to costs no request.
	storeSilence = 3 * time.Minute
	// unprovenRetry is the first wait before the agent asks again which cluster the target is if it may not read
	// that, and maxUnprovenRetry the longest.
	unprovenRetry, maxUnprovenRetry = time.Minute, 15 * time.Minute
)

// Gate stops the workers while the target does not answer, the target's discovery is broken, or another agent
// may serve the same shard. It is closed until the agent has observed the target. While the hub halts the agent,
// workers read and report, and change nothing.
type Gate struct {
	engine *worklist.Worklist
	target *kubeclient.Client
	log    *slog.Logger
	signal retry.Signal
	// Identity confirms, after each probe that the target has answered, which cluster it is; nil: nothing does. It
	// returns errUnproven if it can't. It reads from the target's store: an API server that has lost its etcd
	// answers discovery from memory.
	Identity func(ctx context.Context) error

	mu   sync.Mutex
	halt string // the reason for which the hub halts the agent; empty: it does not
	// observes is true if the agent continues to observe while the hub halts it.
	observes bool
	// blind is the time at which a halted agent stopped to observe the target; zero: it observes.
	blind  time.Time
	broken string // the fault of the target; empty: none
	// since is the time at which a broken target last answered, or at which the gate was made.
	since time.Time
	// unproven is true while the target answers and may be another cluster than before.
	unproven bool
	// reached reports that the target has answered, tried that it has or that a probe has failed.
	reached, tried bool
	taken          string // the reason, found at the target, for which the agent may not act; empty: it may
	// stopped is the reason for which this process must not act, even if the store can't record it; empty: it
	// may.
	stopped string
	// early is set until the agent has observed the target. That is no fault, so the agent does not report it.
	early bool
}

// NewGate returns a gate that is closed until the target has answered.
func NewGate(e *worklist.Worklist, t *kubeclient.Client, log *slog.Logger) *Gate {
	g := &Gate{
		engine: e, target: t, log: log, signal: retry.NewSignal(), broken: "the target has not been reached yet", since: time.Now(), early: true,
	}
	e.SetMode(worklist.Closed, g.broken)
	return g
}

// SetHalt sets the reason for which the hub halts the agent, which is empty if it does not. It also sets whether
// the agent continues to observe in this state. Of concurrent calls, the last one reads last.
func (g *Gate) SetHalt(halt func() (why string, observes bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, observes := halt()
	if why != g.halt {
		g.log.Info("the hub has halted the agent, or ended the halt", "halt", why)
	}
	g.halt, g.observes = why, observes
	g.apply()
}

// setBroken sets the fault of the target; empty: none.
func (g *Gate) setBroken(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if (why == "") != (g.broken == "") {
		g.log.Info("the target's health has changed", "broken", why)
		g.since = time.Now()
	}
	g.broken, g.tried = why, true
	g.reached = g.reached || why == ""
	g.apply()
}

// SetTaken sets the reason for which the agent may not act because of other agents of the location at the
// target; empty: it may.
func (g *Gate) SetTaken(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why != g.taken {
		g.log.Info("the permission of the agent to act at the cluster has changed", "why not", why)
	}
	g.taken = why
	g.apply()
}

// Stop sets the reason for which this process must not act, even if the store can't record it; empty: it may
// act.
func (g *Gate) Stop(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = why
	g.apply()
}

// Begin ends the wait after the start.
func (g *Gate) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.early = false
	g.apply()
}

func (g *Gate) apply() {
	halted := g.halt != ""
	if blind := g.stopped != "" || halted && !g.observes; !blind {
		g.blind = time.Time{}
	} else if g.blind.IsZero() {
		g.blind = time.Now()
	}
	switch {
	case g.early, g.stopped != "", g.broken != "", g.taken != "", halted && !g.observes:
		g.engine.SetMode(worklist.Closed, g.why())
	case halted:
		g.engine.SetMode(worklist.Observing, g.halt)
	default:
		g.engine.SetMode(worklist.Open, "")
	}
}

func (g *Gate) why() string { return cmp.Or(g.halt, g.stopped, g.broken, g.taken) }

// Why returns the reason for which the agent may not change the target; empty: it may.
func (g *Gate) Why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why()
}

// Halted returns the reason for which the agent may not change the target, apart from faults of the target;
// empty: it may.
func (g *Gate) Halted() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cmp.Or(g.halt, g.stopped)
}

// Cluster reports whether the target answers. A target that stops to answer still counts as available for
// unavailableAfter.
func (g *Gate) Cluster() wire.ClusterStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.broken == "", g.reached && time.Since(g.since) < unavailableAfter:
		return wire.ClusterStatus{State: wire.ClusterAvailable}
	case !g.tried:
		return wire.ClusterStatus{State: wire.ClusterUnknown}
	}
	return wire.ClusterStatus{State: wire.ClusterUnavailable, Since: g.since.UTC().Format(time.RFC3339), Message: g.broken}
}

// Observed reports whether reports of the agent describe the current state of the target. They do not while the
// target does not answer, or while a halted agent does not observe it.
func (g *Gate) Observed() wire.ClusterStatus {
	answers := g.Cluster()
	g.mu.Lock()
	defer g.mu.Unlock()
	if answers.State == wire.ClusterUnavailable || g.blind.IsZero() || time.Since(g.blind) < unavailableAfter {
		return answers
	}
	return wire.ClusterStatus{State: wire.ClusterUnavailable, Since: g.blind.UTC().Format(time.RFC3339), Message: wire.Brief(cmp.Or(g.halt, g.stopped))}
}

// Unproven reports whether the agent can't prove that the target is the cluster that it knows.
func (g *Gate) Unproven() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unproven
}

// Reached reports whether the target has answered since the gate was made.
func (g *Gate) Reached() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reached
}

// Trouble starts a probe, to find out whether an error concerns the whole target or only one object or kind. The
// gate closes when the probe fails. A busy target is not probed, since that would be one more request. Trouble
// does not block.
func (g *Gate) Trouble(err error) {
	if err == nil || errors.Is(err, kubeclient.ErrNotHeld) || errors.Is(err, kubeclient.ErrReadOnly) || kubeclient.Busy(err) || !kubeclient.Unavailable(err) && !kubeclient.MissingKind(err) && !errors.Is(err, kubeclient.ErrAnswer) {
		return
	}
	g.signal.Raise()
}

// Confirm closes the gate for a reason until a probe has answered, and has confirmed the identity of the
// cluster. Confirm does not block.
func (g *Gate) Confirm(why string) {
	g.setBroken(why)
	g.signal.Raise()
}

// probe probes the target once: its discovery, unless watches show that the target answers, and its store.
func (g *Gate) probe(ctx context.Context, watched bool) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if !watched {
		if err := g.target.Probe(ctx); err != nil {
			return err
		}
	}
	if g.Identity == nil {
		return nil
	}
	return g.Identity(ctx)
}

// Run probes the target at the start, after each trouble, and when its watches have shown no later revision for
// storeSilence, until ctx ends.
func (g *Gate) Run(ctx context.Context) {
	watched := false
	for unproven := uint8(0); ; {
		var answered time.Time
		for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
			err := g.probe(ctx, watched)
			if proven := !errors.Is(err, errUnproven); err == nil || !proven {
				answered = time.Now()
				unproven = g.answered(proven, unproven)
				break
			}
			watched = false
			if ctx.Err() == nil && !kubeclient.Busy(err) { // a busy target is not a broken one
				g.setBroken(wire.Brief(kubeclient.Cause(err)))
			}
			retry.Pause(ctx, max(retry.Backoff(failures, retry.First, maxListRetry), kubeclient.RetryAfter(err)))
		}
		var again time.Time // zero: no other probe is due
		if unproven > 0 {
			again = time.Now().Add(retry.Backoff(unproven-1, unprovenRetry, maxUnprovenRetry))
		}
		if watched = g.awaitSilence(ctx, answered, again); ctx.Err() != nil {
			return
		}
	}
}

// awaitSilence waits for trouble, for the time again unless it is zero, or until no event has shown for
// storeSilence that the target's store answers. It returns false for trouble. answered is the time at which the
// store last answered a probe.
func (g *Gate) awaitSilence(ctx context.Context, answered, again time.Time) bool {
	for {
		if advanced := g.target.Advanced.Time(); advanced.After(answered) {
			answered = advanced
		}
		due := answered.Add(storeSilence)
		if !again.IsZero() && again.Before(due) {
			due = again
		}
		left := time.Until(due)
		if left <= 0 {
			return true
		}
		select {
		case <-g.signal:
			return false
		case <-time.After(left):
		case <-ctx.Done():
			return false
		}
	}
}

// answered records an answer of the target to a probe. proven reports whether it is proven to be the same
// cluster. It returns the number of probes in a row for which it was not.
func (g *Gate) answered(proven bool, before uint8) uint8 {
	g.mu.Lock()
	g.unproven = !proven
	g.mu.Unlock()
	g.setBroken("")
	if proven {
		return 0
	}
	return min(before+1, retry.MaxFailures)
}
