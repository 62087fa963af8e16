package fencing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// DefaultDuration is the default duration of a Lease: the time after which a Lease that is not renewed is
	// free.
	DefaultDuration = 15 * time.Second
	// MaxDuration is the longest duration of a Lease.
	MaxDuration = time.Minute
	// noticeTimes is the number of durations after which the agent of a whole location has certainly received
	// the first Lease of a shard, even if the connection of its watch is dead.
	noticeTimes = 7
	// wholeTimeout is the time for which the agent of a whole location acts while it can't read Leases.
	wholeTimeout = 10 * time.Second
)

// Leases reads and writes the Leases at the cluster.
type Leases interface {
	ListLeases(ctx context.Context, labels string) ([]coordinationv1.Lease, error)
	CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Marker receives the Lease that names the store of a whole location, from the list and the watch of Leases.
type Marker interface {
	// is reports whether a Lease is that of the location.
	is(self ownership.Owner, lease *ownership.Meta) bool
	// show receives the current state of the Lease; nil: there is none.
	show(self ownership.Owner, lease *ownership.Meta)
}

// noMark is a Marker of no Lease.
type noMark struct{}

func (noMark) is(ownership.Owner, *ownership.Meta) bool { return false }

func (noMark) show(ownership.Owner, *ownership.Meta) {}

// Config is what a Fence needs.
type Config struct {
	// Shard is the shard of the location that the agent serves.
	Shard key.Shard
	// IsMoved is true if the agent served another shard before.
	IsMoved bool
	// Target is the cluster, where the agent of a whole location watches Leases. Leases are those at the
	// cluster, of which the agent of a shard holds one.
	Target *kubeclient.Client
	Leases Leases
	// Namespace is the namespace of the Leases. Holder is the name of the process as a holder: no two processes
	// have the same.
	Namespace, Holder string
	// Store is the ID of the agent's store. If an agent with another store, or with a newer copy of this
	// one, has acted for the shard since, Outdated is called and no Lease is taken. Outdated must not
	// block; nil: there is no such check. New reports that no agent has acted with the store, so it can't
	// be outdated. FromWhole reports that its content is of an agent of the whole location, which any
	// agent of the shard makes outdated.
	Store          string
	Outdated       func()
	New, FromWhole bool
	// Moves returns the number of changes of the records in the store; nil: the store does not count them.
	Moves func() uint64
	// Duration is the duration of a Lease. 0: DefaultDuration.
	Duration time.Duration
	// Mark receives the Lease that names the store of a whole location; nil: no such Lease is read.
	Mark Marker
	// Changed is called with the reason for which the agent may not act; empty: it may. It must not block.
	Changed func(why string)
	Log     *slog.Logger
}

// Fence decides whether the agent may act. It is safe for concurrent use.
type Fence struct {
	config  Config
	renamed retry.Signal

	mu   sync.Mutex
	self ownership.Owner
	why  string
	// held is canceled when the agent may not act any more: after a denial, or at the time until if no
	// permission has come before. nil: the agent may not act.
	held  context.Context //nolint:containedctx // requests end with it
	end   context.CancelFunc
	until moment
	late  *time.Timer
	// lease is the Lease that is held at the cluster; nil: none is known.
	lease *coordinationv1.Lease
}

// late is the reason for which an agent does not act that has received no permission in time.
const late = "its Lease was not renewed, or not looked at, in time"

const notAsked = "the agent has not read the Leases of the location at the cluster yet"

// New returns a Fence that does not let the agent act before Run has read the Leases.
func New(config Config) *Fence {
	if config.Duration == 0 {
		config.Duration = DefaultDuration
	}
	if config.Mark == nil {
		config.Mark = noMark{}
	}
	return &Fence{config: config, renamed: retry.NewSignal(), why: notAsked}
}

// Identify sets the owner in the ownership metadata of the agent's objects. Before the first call the agent
// holds no Lease.
func (t *Fence) Identify(self ownership.Owner) {
	t.mu.Lock()
	news := t.self != self
	if t.self = self; news {
		t.stop(notAsked) // the Lease belongs to the previous owner
	}
	t.mu.Unlock()
	if news {
		t.renamed.Raise()
	}
}

// Self returns the owner in the ownership metadata of the agent's objects; empty: it is not known yet.
func (t *Fence) Self() ownership.Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

// Held returns a context that is canceled when the agent may not act any more, and the time before which no
// other agent acts. It returns an error with the reason if the agent may not act now. The caller calls it right
// before each request that may change an object.
func (t *Fence) Held() (held context.Context, until time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil && !now().before(t.until) {
		t.stop(late)
	}
	if t.held == nil {
		return nil, time.Time{}, errors.New(t.why)
	}
	if t.config.Shard.Whole() {
		return t.held, t.until.steady.Add(sentLasts * t.config.Duration), nil
	}
	return t.held, t.until.steady.Add(t.config.Duration / renewals), nil
}

// Run keeps the Lease until ctx ends. The caller must stop all actions before it calls Release.
func (t *Fence) Run(ctx context.Context) {
	for ctx.Err() == nil {
		self := t.Self()
		if self == "" {
			select {
			case <-t.renamed:
			case <-ctx.Done():
			}
			continue
		}
		t.serve(ctx, self)
		t.deny(notAsked)
	}
}

// serve keeps the Lease for one owner, until Identify sets another one or ctx ends.
func (t *Fence) serve(ctx context.Context, self ownership.Owner) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if t.config.Shard.Whole() {
			t.watch(ctx, self)
		} else {
			t.keep(ctx, self)
		}
	}()
	for ctx.Err() == nil && t.Self() == self {
		select {
		case <-t.renamed:
		case <-ctx.Done():
		}
	}
	cancel()
	<-done
}

// allow lets the agent act until a time.
func (t *Fence) allow(until moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !now().before(until) {
		t.stop(late)
		return
	}
	t.until = until
	if t.held == nil {
		t.held, t.end = context.WithCancel(context.Background())
		t.why = ""
		t.config.Changed("")
	}
	if t.late != nil {
		t.late.Stop()
		t.late = nil
	}
	t.late = time.AfterFunc(until.left(now()), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.held != nil && !now().before(t.until) {
			t.stop(late)
		}
	})
}

// deny does not let the agent act, for a reason.
func (t *Fence) deny(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop(why)
}

// stop is deny for callers that hold mu.
func (t *Fence) stop(why string) {
	if t.held == nil && t.why == why {
		return
	}
	if t.held != nil {
		t.end()
		t.held = nil
	}
	t.why = why
	t.config.Changed(why)
}

// moment is a time by two clocks of the process: a monotonic one, which cannot be set, and the wall clock, which
// continues while the machine is suspended.
type moment struct{ steady, wall time.Time }

func now() moment {
	t := time.Now()
	return moment{t, t.Round(0)}
}

func (m moment) add(d time.Duration) moment { return moment{m.steady.Add(d), m.wall.Add(d)} }

// before reports whether m is before another moment by both clocks. It decides whether the agent may act.
func (m moment) before(o moment) bool { return m.steady.Before(o.steady) && m.wall.Before(o.wall) }

// awaits reports whether m is before another moment by the monotonic clock. It decides whether the agent must
// wait for other agents, since these do not stop when this machine's clock is set forward.
func (m moment) awaits(o moment) bool { return m.steady.Before(o.steady) }

// left returns the time until the moment, by the clock that reaches it first.
func (m moment) left(from moment) time.Duration {
	return max(0, min(m.steady.Sub(from.steady), m.wall.Sub(from.wall)))
}
