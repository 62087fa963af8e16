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
	"orrery.dev/orrery/internal/agent/diagnoser"
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
	fence  *fencing.Fence
	mark   *fencing.Mark // nil if the agent has a shard
	// begun is set when the agent starts to change the target, and aged when its store turns out
	// to be older than the target.
	begun, aged atomic.Bool
	// running ends with the agent, and refuse ends it.
	running context.Context //nolint:containedctx // the context of Run
	refuse  context.CancelCauseFunc
	// yield ends the fence of an agent that another one has superseded.
	yield     context.CancelFunc
	reporter  *hubclient.Reporter
	announcer *hubclient.Announcer
	inspector *hubclient.Inspector
	purge     *orphans.Purge
	scanner   *orphans.Scanner
	takeover  *orphans.Takeover
	upsync    *upsync.Syncer
	watchers  *observe.Observers
	diagnoser *diagnoser.Diagnoser
	prover    *hubclient.Prover
	shared    *hubclient.Namespaces // nil if the agent has the whole location
	state     *hubclient.State
	// keeper stores the credential and renewer renews it; both are nil if the client needs none.
	keeper  *credential.Keeper
	renewer *hubclient.Renewer
}

// New returns an agent; it does nothing before Run. Several agents may run in one
// process, each with its own data directory.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Workers == 0 {
		c.Workers = kubeclient.MaxWorkers
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

// Ready returns a channel that is closed once the agent applies the desired objects in its store,
// whether or not the hub can be reached.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run runs the agent until ctx ends. It returns an error if the agent could not start, or could
// not close its store or write its last status. It may be called once.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.open(); err != nil {
		return err
	}
	if !a.store.Encrypted() {
		a.log.Warn("the store is not encrypted: it contains the desired objects, including Secrets; give a key with --store-key-file")
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

// open opens the store and loads its content. If loading fails, it opens the store
// once more; this checks the store, and sets it aside if it is damaged.
func (a *Agent) open() (err error) {
	for range 2 {
		if a.store, err = store.Open(a.config.DataDir, key.Location(a.config.Join.Location), a.config.StoreKey, a.log); err != nil {
			return err
		}
		a.engine = worklist.New()
		previous := a.store.Meta().Shard
		if err = a.store.Serve(a.config.Shard); err == nil {
			a.build(previous)
			if err = a.store.Load(a.load); err == nil {
				return nil
			}
		}
		err = errors.Join(err, a.store.Close())
	}
	return err
}

// load initializes the worklist and the gate from the store.
func (a *Agent) load() error {
	a.identify()
	a.gate.SetHalt(a.store.Halt)
	return a.engine.Load(a.store)
}

// build creates the components that depend on the store. previous is the shard of the agent's
// previous run.
func (a *Agent) build(previous key.Shard) {
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
	a.fence = fencing.New(fencing.Config{
		Mark: marker, Moves: func() uint64 { return a.store.Meta().Moves }, Shard: a.config.Shard, IsMoved: previous != a.config.Shard, Target: a.target, Leases: a.target, Namespace: home, Holder: holder,
		Duration: a.config.LeaseDuration, Changed: a.taken, Log: a.log,
		Store: a.store.Meta().ID, Outdated: func() { a.outdated(errOutdated) }, New: a.store.Meta().Revision == 0 && a.store.Meta().Moves == 0, FromWhole: previous.Whole(),
	})
	a.target.Guard(a.fence.Held)
	a.gate.Identity = observe.NewIdentity(a.engine, a.store, a.target, a.log).Confirm
	age := observe.NewAge(a.store, a.config.Shard, a.state.Proves, a.surpassed, a.log)
	a.watchers = observe.NewObservers(a.engine, a.store, a.target, a.gate, age, a.log)
	a.diagnoser = diagnoser.New(a.engine, a.store, a.target, a.log)
	a.watchers.Diagnoser = a.diagnoser
	a.reporter = hubclient.NewReporter(link, a.metrics.reports, a.engine.Touch, a.reports)
	a.prover = hubclient.NewProver(link, a.engine.Again)
	if a.shared = nil; !a.config.Shard.Whole() {
		a.shared = hubclient.NewNamespaces(link, a.engine.Again)
	}
	a.announcer = hubclient.NewAnnouncer(link, a.target, a.announcement, a.watchers.Served)
	a.purge = orphans.NewPurge(a.engine, a.target, a.store, a.log)
	a.takeover = orphans.NewTakeover(a.engine, a.target, a.store, a.state, a.prover, a.gate, a.log)
	a.upsync = upsync.New(a.engine, a.store, a.target, a.gate, a.reporter, a.log)
	a.scanner = orphans.New(a.engine, a.target, a.store, a.state, a.gate, a.log)
	a.watchers.Rewound = a.metrics.rewound(a.scanner.Again)
}

// reports is true if this agent may send reports: of several agents of a shard, only the one
// that holds the Lease, even if others have unsent reports from their start.
func (a *Agent) reports() bool {
	if !a.begun.Load() || a.aged.Load() || a.store.Meta().Newer != "" {
		return false // the hub's reports may be newer
	}
	if a.config.Shard.Whole() {
		return true
	}
	_, _, err := a.fence.Held()
	return err == nil
}

// taken records the reason why the Leases at the cluster forbid the agent to act; empty if they
// allow it.
func (a *Agent) taken(why string) {
	a.gate.SetTaken(why)
	if why == "" {
		a.reporter.Changed()
	}
}

// link returns the dependencies of the components that send requests to the hub.
func (a *Agent) link() hubclient.Link {
	return hubclient.Link{Client: a.hub, Store: a.store, State: a.state, Log: a.log}
}

// work runs all components until ctx ends, and returns when they have ended. Queued commits of
// the store are still written. It returns an error if the hub rejects the join token, or if the
// agent must start again.
func (a *Agent) work(ctx context.Context) (err error) {
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	fenced, yield := context.WithCancel(ctx)
	defer yield()
	a.running, a.refuse, a.yield = ctx, refuse, yield
	r := reconcile.New(reconcile.Config{
		Store: a.store, Engine: a.engine, Target: a.target, Gate: a.gate, State: a.state, Prover: a.prover, Reporter: a.reporter, Namespaces: a.shared,
		Repairs: a.metrics.repairs, Contested: a.metrics.contested, MutatedRetry: a.config.MutatedRetry, Log: a.log,
	})
	a.inspector = hubclient.NewInspector(a.link(), reconcile.Inspector{Reconciler: r}.Inspect)
	var tasks, disk sync.WaitGroup
	diskCtx, stopDisk := context.WithCancel(context.WithoutCancel(ctx))
	disk.Go(func() { a.store.Run(diskCtx) })
	defer disk.Wait()
	defer stopDisk()
	defer a.engine.Stop()
	defer func() {
		tasks.Wait()
		a.release(context.WithoutCancel(ctx))
		if refused := (*hubclient.JoinError)(nil); errors.As(context.Cause(ctx), &refused) {
			err = refused
		} else if cause := context.Cause(ctx); errors.Is(cause, errOutdated) || beginsAgain(cause) {
			err = cause
		}
	}()

	for range a.config.Workers {
		tasks.Go(func() { r.Work(ctx) })
	}
	s := hubclient.NewSession(a.link(), follower{a}, a.reporter, a.metrics.frames, a.metrics.sessions)
	tasks.Go(func() { a.gate.Run(ctx) })
	tasks.Go(func() { a.begin(ctx) })
	tasks.Go(func() { keepFence(ctx, fenced, a.config.Shard, a.fence, a.store, a.release) })
	if a.mark != nil {
		tasks.Go(func() { a.mark.Run(ctx) })
	}
	tasks.Go(func() { a.watchers.Run(ctx) })
	tasks.Go(func() { a.diagnoser.Run(ctx) })
	tasks.Go(func() { a.reporter.Run(ctx) })
	tasks.Go(func() { s.Run(ctx) })
	tasks.Go(func() { hubclient.NewMover(a.hub).Run(ctx) })
	tasks.Go(func() { a.keepStatus(ctx) })
	tasks.Go(func() { a.announcer.Run(ctx) })
	tasks.Go(func() { a.purge.Run(ctx) })
	tasks.Go(func() { a.scanner.Run(ctx) })
	tasks.Go(func() { a.takeover.Run(ctx) })
	tasks.Go(func() { a.upsync.Run(ctx) })
	tasks.Go(func() { a.prover.Run(ctx) })
	if a.shared != nil {
		tasks.Go(func() { a.shared.Run(ctx) })
	}
	tasks.Go(func() { a.inspector.Run(ctx) })
	tasks.Go(func() {
		(&trust{store: a.store, engine: a.engine, state: a.state, log: a.log, landed: follower{a}.Landed}).run(ctx)
	})
	if a.renewer != nil {
		tasks.Go(func() {
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

// errOutdated ends an agent of whose shard another agent has changed the objects meanwhile.
var errOutdated = errors.New("another agent has had the shard with another store since: start the agent again, which begins with a new one")

// outdated marks the store as outdated and ends the agent with the reason: the next start uses a
// new store.
func (a *Agent) outdated(why error) {
	if err := a.store.Submit(a.running, &store.Commit{
		Do: func(t *store.Tx) error { t.Target.SetOutdated(); return nil }, Done: func() { a.refuse(why) }, Urgent: true,
	}); err != nil {
		a.log.Debug("the store could not be marked as outdated", "error", err)
	}
}

// release releases the agent's Lease, so that another agent need not wait until it expires, unless the cluster may
// still carry out a write of the agent. It also writes the last state of the store to the Lease that names it.
func (a *Agent) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if !a.target.Unanswered() {
		a.fence.Release(ctx)
	}
	if a.mark == nil {
		return
	}
	if err := a.mark.Write(ctx, true); err != nil {
		a.log.Debug("the Lease that names the store could not be written at the end", "error", err)
	}
}

// holder returns a holder identity for the Leases of this process, which no other process has.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + rand.Text()
}

// follower passes the events of a session to the agent's components.
type follower struct{ *Agent }

// Greeted applies the hello's data about the location. If anew is set, the hello is from another
// log that was accepted: then every desired object is enqueued, so that the target's objects name
// the new log. The owner changes before any of them is written.
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
	a.upsync.Changed()
	if anew {
		a.engine.Push((*worklist.Item).Desired)
	}
}

// Opened resumes the tasks that wait for a session, or, with known, those that wait until the
// session's desired objects are known.
func (a follower) Opened(known bool) {
	if !known {
		a.prover.Again()
		return
	}
	a.engine.Push((*worklist.Item).Stray)
	a.reporter.Changed()
	a.announcer.SessionBegan()
}

// Landed handles entries that frames have changed in the store.
func (a follower) Landed(all []store.Touched) {
	if m := a.store.Meta(); m.Unsent > 0 || !m.ReportsAgreed { // frames can make reports unsent, or make hub and agent differ in their reports
		a.reporter.Changed()
	}
	a.gate.SetHalt(a.store.Halt)
	a.engine.Touch(all)
	a.upsync.Changed()
}

// Superseded halts the agent permanently, since another one has joined the location.
func (a follower) Superseded(credential string) {
	a.gate.Stop(store.Superseded)
	a.yield()
	a.record(func(t *store.Tx) { t.Hub.SetSuperseded(credential) }, func() {})
}

// InspectRequested enqueues an inspect request of the hub.
func (a follower) InspectRequested(q wire.InspectRequest) { a.inspector.Enqueue(q) }

// identify sets the owner in the ownership metadata of the location's objects, once the location's
// UID is known.
func (a *Agent) identify() {
	if uid := a.store.Meta().LocationUID; uid != "" { // from the last accepted hello
		self := ownership.NewOwner(key.Location(a.config.Join.Location), uid)
		a.fence.Identify(self)
		a.engine.Identify(self)
	}
}

// begin allows the agent to act after its start, once it is known whether the store is older than the
// target: each kind was listed, and a session was opened or failed. A hub that does not respond, and a
// kind that cannot be listed, delay it for a bounded time. An empty store delays nothing.
func (a *Agent) begin(ctx context.Context) {
	started := time.Now()
	reached := started
	for a.store.Meta().Newest() > 0 && ctx.Err() == nil {
		if !a.gate.Reached() { // the target cannot be listed
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

// surpassed is called for an object at the target whose log position is later than the store's.
func (a *Agent) surpassed(id key.Identity, log ownership.Pair) {
	a.older(fmt.Sprintf("%s at the cluster was written at %s in the log, which is newer than all that the store has (%d)", id, log, a.store.Meta().Newest()))
}

// older records the evidence at the target that the store is older than the target. The agent changes
// nothing until a session with the hub shows that it may act; then it starts again with a new store.
func (a *Agent) older(newer string) {
	if a.aged.Swap(true) {
		return
	}
	a.log.Error("the data directory is an older copy, or another agent works for the location: nothing is changed until a session with the hub has settled it",
		"newer", newer)
	a.gate.Stop(newer)
	a.record(func(t *store.Tx) { t.Target.SetNewer(newer) }, func() {
		if a.state.Assures() { // otherwise Greeted finds the record
			go a.outdated(errOlder) // in a goroutine, since the store calls this function
		}
	})
}

// record stores the reason why the agent is halted. It retries until that succeeds, and then calls
// done.
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
			a.log.Debug("the reason why the agent is halted could not be stored", "error", err)
		}
	}
	try()
}
