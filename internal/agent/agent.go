package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/agent/credential"
	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/manifest"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/agent/orphans"
	"orrery.dev/orrery/internal/agent/reconcile"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/upsync"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Agent keeps one target equal to what a hub desires at one location.
type Agent struct {
	config  Config
	log     *slog.Logger
	hub     *hubclient.Client
	target  *kubeclient.Client
	metrics *metrics
	ready   chan struct{}

	store  *store.Store
	engine *worklist.Worklist
	gate   *observe.Gate
	tenure *fencing.Fence
	mark   *fencing.Mark // nil: the agent is of a shard
	// begun is set when the agent acts after its start, and aged when its store is older than the
	// target.
	begun, aged atomic.Bool
	// running ends with the agent, and refuse ends it.
	running context.Context //nolint:containedctx // it is that of Run
	refuse  context.CancelCauseFunc
	// yield ends the fence of an agent that another one has superseded.
	yield     context.CancelFunc
	reporter  *hubclient.Reporter
	announcer *hubclient.Announcer
	looks     *hubclient.Inspector
	purge     *orphans.Purge
	survey    *orphans.Scanner
	heritage  *orphans.Takeover
	census    *upsync.Syncer
	watchers  *observe.Observers
	prover    *hubclient.Prover
	shared    *hubclient.Namespaces // nil: the agent has the whole location
	state     *hubclient.State
	// keeper has the credential and renewer keeps it good; nil: the client needs none.
	keeper  *credential.Keeper
	renewer *hubclient.Renewer
}

// New makes an agent; it does nothing before Run. Any number may run in one
// process, each with its own data directory.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Workers == 0 {
		c.Workers = kubeclient.MostWorkers
	}
	a := &Agent{config: c, log: c.Logger, metrics: newMetrics(), ready: make(chan struct{}), engine: worklist.New()}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With("location", c.Join.Location)
	name := "orrery-agent/" + c.Version
	if !c.Shard.Whole() {
		name += " (shard " + c.Shard.String() + ")"
	}
	var err error
	if a.hub, err = hubclient.New(hubclient.Config{Join: c.Join, Agent: name, Shard: c.Shard, Dir: c.DataDir, Proxy: c.Proxy, Log: a.log}); err != nil {
		return nil, err
	}
	if a.target, err = kubeclient.New(c.Target, name, c.Workers, a.metrics.request, a.log); err != nil {
		return nil, err
	}
	kubeclient.Reload(a.target, c.ReloadTarget)
	return a, nil
}

// Ready is closed once the agent enforces what its store holds, whether or not the
// hub can be reached.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run works until ctx ends. It returns an error if the agent could not start, or could
// not close its store or write its last status. It may be called once.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.open(); err != nil {
		return err
	}
	if !a.store.Encrypted() {
		a.log.Warn("the store is not encrypted: it has what the cluster is to have, Secrets included; give a key by --store-key-file")
	}
	defer func() { err = errors.Join(err, a.store.Close()) }()
	if err := a.openCredential(); err != nil {
		return err
	}
	if a.config.Metrics != nil {
		if err := a.metrics.register(a.config.Metrics, a.config.Version, a.Status); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
		defer a.metrics.unregister(a.config.Metrics)
	}
	return errors.Join(a.work(ctx), writeLast(a))
}

// openCredential reads the agent's credential. The store is open by then, so that no other
// process renews it.
func (a *Agent) openCredential() (err error) {
	if !a.hub.Shows() {
		return nil
	}
	if a.keeper, err = credential.Open(a.config.DataDir, a.config.StoreKey); err != nil {
		return err
	}
	a.renewer, err = hubclient.NewRenewer(a.link(), a.keeper, a.config.Given)
	return err
}

// open opens the store and loads what it holds. If loading fails, it opens the store
// once more, which checks it and sets it aside if it is damaged.
func (a *Agent) open() (err error) {
	for range 2 {
		if a.store, err = store.Open(a.config.DataDir, key.Location(a.config.Join.Location), a.config.StoreKey, a.log); err != nil {
			return err
		}
		a.engine = worklist.New()
		was := a.store.Meta().Shard
		if err = a.store.Serve(a.config.Shard); err == nil {
			a.build(was)
			if err = a.store.Load(a.load); err == nil {
				return nil
			}
		}
		err = errors.Join(err, a.store.Close())
	}
	return err
}

// load makes the engine know what the store holds.
func (a *Agent) load() error {
	a.identify()
	a.gate.SetHalt(a.store.Halt)
	return a.engine.Load(a.store)
}

// build makes the parts that go by the store. was is the part of the location that the agent
// had before.
func (a *Agent) build(was key.Shard) {
	a.state = hubclient.NewState()
	a.engine.Worked = func(took time.Duration) { a.metrics.work.Observe(took.Seconds()) }
	link := a.link()
	a.gate = observe.NewGate(a.engine, a.target, a.log)
	home, holder := cmp.Or(a.config.LeaseNamespace, manifest.Namespace), holder()
	var marker fencing.Marker
	if a.mark = nil; a.config.Shard.Whole() {
		kept := lasting{a.store, &a.aged, a.record}
		a.mark = fencing.NewMark(fencing.Marked{
			Leases: a.target, Target: a.target, Namespace: home, Holder: holder, Now: kept.state,
			Former: kept.former(), Found: kept.found, Newer: a.older, Sound: kept.isSound,
			May: func() bool { return a.Halted() == "" }, Assures: a.state.Assures, Proves: a.state.Proves, Log: a.log,
		})
		marker = a.mark
	}
	a.tenure = fencing.New(fencing.Config{
		Mark: marker, Moves: func() uint64 { return a.store.Meta().Moves }, Shard: a.config.Shard, Was: was != a.config.Shard, Target: a.target, Leases: a.target, Namespace: home, Holder: holder,
		Duration: a.config.LeaseDuration, Changed: a.taken, Log: a.log,
		Store: a.store.Meta().ID, Outdated: func() { a.outdated(errOutdated) }, New: a.store.Meta().Revision == 0 && a.store.Meta().Moves == 0, FromWhole: was.Whole(),
	})
	a.target.Guard(a.tenure.Held)
	a.gate.Identity = observe.NewIdentity(a.engine, a.store, a.target, a.log).Confirm
	age := observe.NewAge(a.store, a.config.Shard, a.state.Proves, a.surpassed, a.log)
	a.watchers = observe.NewObservers(a.engine, a.store, a.target, a.gate, age, a.log)
	a.reporter = hubclient.NewReporter(link, a.metrics.reports, a.engine.Touch, a.reports)
	a.prover = hubclient.NewProver(link, a.engine.Again)
	if a.shared = nil; !a.config.Shard.Whole() {
		a.shared = hubclient.NewNamespaces(link, a.engine.Again)
	}
	a.announcer = hubclient.NewAnnouncer(link, a.target, a.announcement, a.watchers.Served)
	a.purge = orphans.NewPurge(a.engine, a.target, a.store, a.log)
	a.heritage = orphans.NewTakeover(a.engine, a.target, a.store, a.state, a.prover, a.gate, a.log)
	a.census = upsync.New(a.engine, a.store, a.target, a.gate, a.reporter, a.log)
	a.survey = orphans.New(a.engine, a.target, a.store, a.state, a.gate, a.log)
	a.watchers.Rewound = a.metrics.rewound(a.survey.Again)
}

// reports returns true if this agent is the one to report: of several of a shard the acting one,
// whatever the others knew when they began.
func (a *Agent) reports() bool {
	if !a.begun.Load() || a.aged.Load() || a.store.Meta().Newer != "" {
		return false // what the hub has may be newer
	}
	if a.config.Shard.Whole() {
		return true
	}
	_, _, err := a.tenure.Held()
	return err == nil
}

// taken notes why the agent may not act, by what stands at the cluster; empty: it may.
func (a *Agent) taken(why string) {
	a.gate.SetTaken(why)
	if why == "" {
		a.reporter.Changed()
	}
}

// link is what each part that speaks to the hub needs.
func (a *Agent) link() hubclient.Link {
	return hubclient.Link{Client: a.hub, Store: a.store, State: a.state, Log: a.log}
}

// work runs all parts until ctx ends, and returns when they have. What is in the
// store's queue then is still written. It returns an error if the hub refuses to let the
// agent join.
func (a *Agent) work(ctx context.Context) (err error) {
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	fenced, yield := context.WithCancel(ctx)
	defer yield()
	a.running, a.refuse, a.yield = ctx, refuse, yield
	r := reconcile.New(reconcile.Parts{
		Store: a.store, Engine: a.engine, Target: a.target, Gate: a.gate, State: a.state, Prover: a.prover, Reporter: a.reporter, Namespaces: a.shared,
		Repairs: a.metrics.repairs, Contested: a.metrics.contested, MutatedRetry: a.config.MutatedRetry, Log: a.log,
	})
	a.looks = hubclient.NewInspector(a.link(), r.Look)
	var parts, disk sync.WaitGroup
	diskCtx, stopDisk := context.WithCancel(context.WithoutCancel(ctx))
	disk.Go(func() { a.store.Run(diskCtx) })
	defer disk.Wait()
	defer stopDisk()
	defer a.engine.Stop()
	defer func() {
		parts.Wait()
		a.release(context.WithoutCancel(ctx))
		if refused := (*hubclient.JoinError)(nil); errors.As(context.Cause(ctx), &refused) {
			err = refused
		} else if cause := context.Cause(ctx); errors.Is(cause, errOutdated) || beginsAgain(cause) {
			err = cause
		}
	}()

	for range a.config.Workers {
		parts.Go(func() { r.Work(ctx) })
	}
	s := hubclient.NewSession(a.link(), follower{a}, a.reporter, a.metrics.frames, a.metrics.sessions)
	parts.Go(func() { a.gate.Run(ctx) })
	parts.Go(func() { a.begin(ctx) })
	parts.Go(func() { keepFence(ctx, fenced, a.config.Shard, a.tenure, a.store, a.release) })
	if a.mark != nil {
		parts.Go(func() { a.mark.Run(ctx) })
	}
	parts.Go(func() { a.watchers.Run(ctx) })
	parts.Go(func() { a.reporter.Run(ctx) })
	parts.Go(func() { s.Run(ctx) })
	parts.Go(func() { hubclient.NewMover(a.hub).Run(ctx) })
	parts.Go(func() { a.keepStatus(ctx) })
	parts.Go(func() { a.announcer.Run(ctx) })
	parts.Go(func() { a.purge.Run(ctx) })
	parts.Go(func() { a.survey.Run(ctx) })
	parts.Go(func() { a.heritage.Run(ctx) })
	parts.Go(func() { a.census.Run(ctx) })
	parts.Go(func() { a.prover.Run(ctx) })
	if a.shared != nil {
		parts.Go(func() { a.shared.Run(ctx) })
	}
	parts.Go(func() { a.looks.Run(ctx) })
	parts.Go(func() {
		(&trust{store: a.store, engine: a.engine, state: a.state, log: a.log, landed: follower{a}.Landed}).run(ctx)
	})
	if a.renewer != nil {
		parts.Go(func() {
			if err := a.renewer.Run(ctx); err != nil {
				refuse(err)
			}
		})
		select {
		case <-a.renewer.Tried():
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	close(a.ready)
	return nil
}

// errOutdated ends an agent whose store another agent of the shard has made worthless.
var errOutdated = errors.New("another agent has had the shard with another store since: start the agent again, which begins with a new one")

// outdated ends the agent for a reason why its store is worthless: the next start begins with a
// new one.
func (a *Agent) outdated(why error) {
	if err := a.store.Submit(a.running, &store.Commit{
		Do: func(t *store.Tx) error { t.Outdate(); return nil }, Done: func() { a.refuse(why) }, Urgent: true,
	}); err != nil {
		a.log.Debug("the store has not noted that it is outdated", "error", err)
	}
}

// release lets go of the agent's Lease, so that another need not wait until it ends: unless the cluster may
// still carry out a request of the agent. It has the other Lease name the last state of the store.
func (a *Agent) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if !a.target.Unanswered() {
		a.tenure.Release(ctx)
	}
	if a.mark == nil {
		return
	}
	if err := a.mark.Write(ctx, true); err != nil {
		a.log.Debug("the Lease that names the store is not written at the end", "error", err)
	}
}

// holder is who holds the Lease of this process: no other has the same.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + rand.Text()
}

// follower tells the agent's parts what the session hears from the hub.
type follower struct{ *Agent }

// Greeted takes over what a hello says of the location. anew says that the hello is of
// another log, which was accepted: then every desired object gets a turn, so that the
// target's objects name the new log. The owner changes before any of them is written.
func (a follower) Greeted(anew bool) {
	if a.store.Meta().Newer != "" {
		a.outdated(errOlder)
		return
	}
	if !a.aged.Load() {
		a.gate.Stop("")
	}
	if !anew {
		a.gate.SetHalt(a.store.Halt)
	}
	a.identify()
	a.census.Changed()
	if anew {
		a.engine.Push((*worklist.Item).Desired)
	}
}

// Opened resumes what waited for a session, or, with known, what waited until the
// session's desired content is known.
func (a follower) Opened(known bool) {
	if !known {
		a.prover.Again()
		return
	}
	a.engine.Push((*worklist.Item).Stray)
	a.reporter.Changed()
	a.announcer.SessionBegan()
}

// Landed takes note of what frames changed in the store.
func (a follower) Landed(all []store.Touched) {
	if m := a.store.Meta(); m.Unsent > 0 || !m.ReportsAgreed { // frames alone can make reports unsent, or the hub's others than ours
		a.reporter.Changed()
	}
	a.gate.SetHalt(a.store.Halt)
	a.engine.Touch(all)
	a.census.Changed()
}

// Superseded halts the agent for good, since another one has joined the location.
func (a follower) Superseded(credential string) {
	a.gate.Stop(store.Superseded)
	a.yield()
	a.record(func(t *store.Tx) { store.Supersede(t, credential) }, func() {})
}

// Asked has what the hub asks answered.
func (a follower) Asked(q wire.Look) { a.looks.Asked(q) }

// identify tells the engine as whom the location owns objects at the target, once the
// location's UID is known.
func (a *Agent) identify() {
	if uid := a.store.Meta().LocationUID; uid != "" { // of the last hello that was accepted
		self := ownership.NewOwner(key.Location(a.config.Join.Location), uid)
		a.tenure.Identify(self)
		a.engine.Identify(self)
	}
}

// begin has the agent act after its start, once it knows whether its store is older than the target:
// each kind was listed, and the hub was reached or can't be. A hub that does not answer, and a kind
// that can't be listed, hold it up for a bounded time. A new store has nothing to act by.
func (a *Agent) begin(ctx context.Context) {
	started := time.Now()
	reached := started
	for a.store.Meta().Newest() > 0 && ctx.Err() == nil {
		if !a.gate.Reached() { // no list can come
			reached = time.Now()
		}
		if (a.state.Tried() || time.Since(started) >= sessionWithin) && (a.engine.Count().Listed() || time.Since(reached) >= listsWithin) {
			break
		}
		retry.Pause(ctx, beginEvery)
	}
	a.begun.Store(true)
	a.gate.Begin()
	a.reporter.Changed()
}

// surpassed notes that an object at the target was written at a place that the store has not reached.
func (a *Agent) surpassed(id key.Identity, log ownership.Pair) {
	a.older(fmt.Sprintf("%s at the cluster was written at %s in the log, which is newer than all that the store has (%d)", id, log, a.store.Meta().Newest()))
}

// older notes what at the target shows that the store is older than that. Nothing is changed before
// a session: then the hub has let this agent in, and it begins again.
func (a *Agent) older(newer string) {
	if a.aged.Swap(true) {
		return
	}
	a.log.Error("the data directory is an older copy, or another agent works for the location: nothing is changed until a session with the hub has settled it",
		"newer", newer)
	a.gate.Stop(newer)
	a.record(func(t *store.Tx) { store.Doubt(t, newer) }, func() {
		if a.state.Assures() { // or else the hello finds the note
			go a.outdated(errOlder) // the store runs this
		}
	})
}

// record has the store keep why the agent is halted, as often as it takes. done is called once it
// has.
func (a *Agent) record(do func(*store.Tx), done func()) {
	halted := func() {
		a.gate.SetHalt(a.store.Halt)
		done()
	}
	var try func()
	again := func(error) { time.AfterFunc(store.Retry, try) }
	try = func() {
		if err := a.store.Submit(a.running, &store.Commit{
			Do: func(t *store.Tx) error { do(t); return nil }, Done: halted, Failed: again, Urgent: true,
		}); err != nil {
			a.log.Debug("the store does not keep why the agent is halted", "error", err)
		}
	}
	try()
}
