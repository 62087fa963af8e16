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
	// DefaultDuration is for how long a Lease counts as held that is not renewed.
	DefaultDuration = 15 * time.Second
	// MaxDuration is the longest.
	MaxDuration = time.Minute
	// noticeTimes is after how many durations the agent of a whole location has seen the
	// first Lease of a shard, even if the connection over which it watches is dead.
	noticeTimes = 7
	// wholePatience is for how long the agent of a whole location acts while it can't see
	// whether there are Leases.
	wholePatience = 10 * time.Second
)

// Leases are the Leases at the cluster, as they are now.
type Leases interface {
	ListLeases(ctx context.Context, labels string) ([]coordinationv1.Lease, error)
	CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Marker receives the Lease that names the store of a whole location, as the list and the watch of
// Leases show it.
type Marker interface {
	// is reports whether a Lease is that of the location.
	is(self ownership.Owner, lease *ownership.Meta) bool
	// show takes it as it was seen; nil: there is none.
	show(self ownership.Owner, lease *ownership.Meta)
}

// noMark is a Marker of no Lease.
type noMark struct{}

func (noMark) is(ownership.Owner, *ownership.Meta) bool { return false }

func (noMark) show(ownership.Owner, *ownership.Meta) {}

// Config is what a Fence needs.
type Config struct {
	// Shard is the part of the location that the agent is for.
	Shard key.Shard
	// Was says that the agent was for another part before.
	Was bool
	// Target is the cluster, which the agent of a whole location watches, and Leases are those
	// there, which that of a shard holds.
	Target *kubeclient.Client
	Leases Leases
	// Namespace is where Leases are made, Holder who holds them: no two processes have the
	// same.
	Namespace, Holder string
	// Store is the ID of the agent's store. If an agent with another store, or with a newer copy of this
	// one, has acted for the shard since, Outdated is called and no Lease is taken. Outdated must not
	// block; nil: there is no such check. New reports that no agent has acted with the store, so it can't
	// be outdated. FromWhole reports that its content is of an agent of the whole location, which any
	// agent of the shard makes outdated.
	Store          string
	Outdated       func()
	New, FromWhole bool
	// Moves is how often the store has changed what it records; nil: it does not count.
	Moves func() uint64
	// Duration is for how long a Lease counts as held that is not renewed. 0: a default.
	Duration time.Duration
	// Mark receives the Lease that names the store of a whole location; nil: none does.
	Mark Marker
	// Changed is told why the agent may not act; empty: it may. It must not block.
	Changed func(why string)
	Log     *slog.Logger
}

// Fence says whether the agent may act. It is safe for concurrent use.
type Fence struct {
	config  Config
	renamed retry.Signal

	mu   sync.Mutex
	self ownership.Owner
	why  string
	// held ends when the agent may not act any more, since it was said so, or was not said by
	// until that it may; nil: it may not.
	held  context.Context //nolint:containedctx // it is what requests end with
	end   context.CancelFunc
	until moment
	late  *time.Timer
	// lease is what is held at the cluster; nil: nothing is known to be.
	lease *coordinationv1.Lease
}

// late is why an agent does not act that was not told in time that it may.
const late = "its Lease was not renewed, or not looked at, in time"

const notAsked = "which agents there are for the location has yet to be found out at the cluster"

// New makes a Fence by which the agent may not act before Run has found out that it may.
func New(config Config) *Fence {
	if config.Duration == 0 {
		config.Duration = DefaultDuration
	}
	if config.Mark == nil {
		config.Mark = noMark{}
	}
	return &Fence{config: config, renamed: retry.NewSignal(), why: notAsked}
}

// Identify says as whom the agent marks what it has. Nothing is held before.
func (t *Fence) Identify(self ownership.Owner) {
	t.mu.Lock()
	news := t.self != self
	if t.self = self; news {
		t.stop(notAsked) // what was held was the former's
	}
	t.mu.Unlock()
	if news {
		t.renamed.Raise()
	}
}

// Self is as whom the agent marks what it has; empty: it is not known yet.
func (t *Fence) Self() ownership.Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

// Held is the context that ends when the agent may not act any more, and until when no other
// acts; an error says why it may not now. It is asked right before each request that may change
// something.
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

// Run keeps what is held until ctx ends. The caller ends what acts before it releases.
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

// serve keeps what is held as one owner, until that is another one or ctx ends.
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

// allow has the agent act until a time.
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

// deny has the agent not act, for a reason.
func (t *Fence) deny(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop(why)
}

// stop is deny for who has the lock.
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

// moment is a time by the two clocks of a process: that which nobody sets, and that which goes
// on while the machine is suspended.
type moment struct{ steady, wall time.Time }

func now() moment {
	t := time.Now()
	return moment{t, t.Round(0)}
}

func (m moment) add(d time.Duration) moment { return moment{m.steady.Add(d), m.wall.Add(d)} }

// before says that it is before another moment by both clocks: by that one acts.
func (m moment) before(o moment) bool { return m.steady.Before(o.steady) && m.wall.Before(o.wall) }

// awaits says that it is before another moment by the clock that nobody sets: by that one waits
// for others, since a clock that is set forward makes nobody else stop.
func (m moment) awaits(o moment) bool { return m.steady.Before(o.steady) }

// left is how long it is until the moment, by the clock by which it comes first.
func (m moment) left(from moment) time.Duration {
	return max(0, min(m.steady.Sub(from.steady), m.wall.Sub(from.wall)))
}
