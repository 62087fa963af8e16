package mapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/wire"
)

const (
	// infoTimeout is how long a session waits for what it can do without.
	infoTimeout = 3 * time.Second
	// statusEvery is how often the status file is written while something changes.
	statusEvery = time.Second
)

// Config is what an agent needs.
type Config struct {
	// Join says which hub to follow, for which location.
	Join wire.Join
	// Target is the cluster to map to. Client-side rate limits in it are ignored.
	Target *rest.Config
	// DataDir holds the store; it is made with access for its owner only.
	DataDir string
	// Version is the agent's own, told to the hub.
	Version string
	// Logger gets no secrets. Nil: nothing is logged.
	Logger *slog.Logger
	// Metrics, if not nil, gets the agent's collectors when it runs.
	Metrics prometheus.Registerer
	// Workers is how many objects may be worked on at once, at most: how many are
	// follows the target. Zero: a default that suits one API server.
	Workers int
	// MutatedRetry is how long the agent waits before it applies again what admission
	// at the target has changed; each time twice as long, up to ten minutes. Zero: a default.
	MutatedRetry time.Duration
}

// Validate says what is missing.
func (c *Config) Validate() error {
	switch {
	case c.Target == nil:
		return errors.New("agent: no target")
	case c.DataDir == "":
		return errors.New("agent: no data directory")
	case c.Workers < 0:
		return fmt.Errorf("agent: %d workers", c.Workers)
	case c.MutatedRetry < 0:
		return fmt.Errorf("agent: %s until a retry", c.MutatedRetry)
	}
	if err := key.ValidateName(c.Join.Location); err != nil {
		return fmt.Errorf("agent: location: %w", err)
	}
	return c.Join.Validate()
}

// Agent keeps one target equal to what a hub says one location is to have.
type Agent struct {
	config  Config
	log     *slog.Logger
	hub     *hubClient
	target  *target
	metrics *metrics
	ready   chan struct{}

	store     *store
	engine    *engine
	gate      *gate
	reporter  *reporter
	announcer *announcer
	purge     *purge
	survey    *survey
	watchers  *observers
	prover    *prover
	progress  progress
}

// New makes an agent; it does nothing before Run. Any number may run in one
// process, each with its own data directory.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Workers == 0 {
		c.Workers = mostPace
	}
	a := &Agent{config: c, log: c.Logger, metrics: newMetrics(), ready: make(chan struct{}), engine: newEngine()}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With("location", c.Join.Location)
	name := "orrery-agent/" + c.Version
	var err error
	if a.hub, err = newHubClient(c.Join, name); err != nil {
		return nil, err
	}
	if a.target, err = newTarget(c.Target, name, a.metrics.request); err != nil {
		return nil, err
	}
	a.target.pace = newPace(c.Workers)
	return a, nil
}

// Ready is closed once the agent enforces what its store holds, be the hub
// there or not.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run works until ctx ends, and returns nil then. Any other return says what
// made it impossible to start. It may be called once.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.store.close()) }()
	if a.config.Metrics != nil {
		if err := a.metrics.register(a.config.Metrics, a.Status); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	a.work(ctx)
	return writeStatus(a.config.DataDir, a.Status())
}

// open opens the store and loads what it holds. A store that cannot be loaded is
// looked through once more, and set aside if it is damaged.
func (a *Agent) open() (err error) {
	for range 2 {
		if a.store, err = openStore(a.config.DataDir, a.config.Join.Location, a.log); err != nil {
			return err
		}
		a.engine = newEngine()
		a.build()
		if err = guarded(a.load); err == nil {
			return nil
		}
		a.store.unsound.Store(true)
		err = errors.Join(err, a.store.close())
	}
	return err
}

// build makes the parts and wires them.
func (a *Agent) build() {
	a.gate = newGate(a.engine, a.target, a.log)
	a.watchers = &observers{
		engine: a.engine, store: a.store, target: a.target, log: a.log,
		trouble: a.gate.trouble, changed: make(chan struct{}, 1), served: func() { a.announcer.servedChanged() },
	}
	a.engine.kindsChanged = a.watchers.kindsChanged
	a.store.recovered = a.watchers.recovered
	a.reporter = &reporter{
		store: a.store, hub: a.hub, log: a.log, metrics: a.metrics,
		signal: make(chan struct{}, 1), open: a.progress.known, proven: a.progress.proves, landed: a.engine.touch,
	}
	a.announcer = &announcer{
		hub: a.hub, target: a.target, log: a.log, session: a.progress.session, compose: a.announcement,
		served: make(chan struct{}, 1), began: make(chan struct{}, 1),
	}
	a.prover = &prover{hub: a.hub, engine: a.engine, log: a.log, state: &a.progress, wake: make(chan struct{}, 1)}
	a.progress.turned = a.prover.again
	finder := finder{engine: a.engine, target: a.target}
	a.purge = &purge{finder: finder, store: a.store, log: a.log}
	a.survey = &survey{finder: finder, store: a.store, state: &a.progress, stopped: a.gate.why, log: a.log}
	a.purge.reset()
	a.progress.opened = func() {
		a.engine.pushStrays()
		a.reporter.changed()
		a.announcer.sessionBegan()
	}
	a.progress.since = time.Now()
}

// work runs all parts until ctx ends. What is in the store's queue then is
// still written.
func (a *Agent) work(ctx context.Context) {
	var parts, disk sync.WaitGroup
	diskCtx, stopDisk := context.WithCancel(context.WithoutCancel(ctx))
	disk.Go(func() { a.store.run(diskCtx) })
	defer disk.Wait()
	defer stopDisk()
	defer a.engine.stop()
	defer parts.Wait()

	r := &reconciler{
		store: a.store, engine: a.engine, target: a.target, log: a.log, trouble: a.gate.trouble,
		changed: a.reporter.changed, proven: a.progress.proves, prover: a.prover, metrics: a.metrics, namespaces: map[string]struct{}{},
		insists: insistence{first: cmp.Or(a.config.MutatedRetry, firstMutatedRetry), started: time.Now()},
	}
	for range a.config.Workers {
		parts.Go(func() { r.work(ctx) })
	}
	s := &session{
		store: a.store, hub: a.hub, log: a.log, metrics: a.metrics,
		greeted: a.greeted, landed: a.landed, recall: a.reporter.recall, accepted: a.accepted, state: &a.progress,
	}
	parts.Go(func() { a.gate.run(ctx) })
	parts.Go(func() { a.watchers.run(ctx) })
	parts.Go(func() { a.reporter.run(ctx) })
	parts.Go(func() { s.run(ctx) })
	parts.Go(func() { a.keepStatus(ctx) })
	parts.Go(func() { a.announcer.run(ctx) })
	parts.Go(func() { a.purge.run(ctx) })
	parts.Go(func() { a.survey.run(ctx) })
	parts.Go(func() { a.prover.run(ctx) })
	parts.Go(func() {
		(&trust{store: a.store, engine: a.engine, state: &a.progress, log: a.log, landed: a.landed}).run(ctx)
	})
	close(a.ready)
}

// greeted takes over what a hello says of the location.
func (a *Agent) greeted(wire.Hello) {
	a.gate.setHalt(a.store.meta.Load().halt())
	a.identify()
}

// accepted takes over that another log is followed, perhaps of a location that was made
// again: before anything is written of that log, it is as that location.
func (a *Agent) accepted() {
	a.identify()
	a.engine.pushWanted()
}

// identify tells all parts who the location is to the target, once that is known.
func (a *Agent) identify() {
	uid := a.store.meta.Load().LocationUID // that of the hello, once it is accepted
	if uid != "" && a.engine.identify(marks.NewOwner(a.config.Join.Location, uid)) {
		a.watchers.kindsChanged()
	}
}

// landed takes note of what frames changed in the store.
func (a *Agent) landed(all []touched) {
	if a.store.meta.Load().Unsent > 0 { // also without a turn that changes a report
		a.reporter.changed()
	}
	a.gate.setHalt(a.store.meta.Load().halt())
	a.engine.touch(all)
}

// announcement is what the hub is told of the agent.
func (a *Agent) announcement() (wire.AgentStatus, error) {
	now, m := a.Status(), a.store.meta.Load()
	s := wire.AgentStatus{Version: a.config.Version, Halted: now.Halt, Lineage: wire.Proven, Deferred: now.Deferred}
	if !now.Proven || now.unproven {
		s.Lineage, s.Awaits = wire.Unproven, now.Awaits
	}
	var err error
	if len(m.Guarded) > 0 {
		err = a.store.view(func(t *tx) error {
			s.Prune, err = t.pending()
			return err
		})
	}
	s.Purge = a.purge.status()
	return s, err
}

// Status is how the agent is now. It may be called from any goroutine, at any
// time after Ready.
func (a *Agent) Status() Status {
	m := a.store.meta.Load()
	s := Status{
		Location: m.Location, LocationUID: m.LocationUID, Hub: a.config.Join.Hub, Target: a.config.Target.Host,
		Version: a.config.Version, PID: os.Getpid(), Updated: time.Now().UTC().Truncate(time.Second),
		Halt: a.gate.why(), Revision: m.Revision, Marker: m.Marker, Desired: m.Count, Deferred: m.Deferred, Unsent: m.Unsent,
		States: map[wire.State]int{},
	}
	if g := m.Guarded.total(); g.Count > 0 {
		s.Guarded, s.PruneDigest = g.Count, g.digest()
	}
	s.Pace = a.target.pace.now()
	if why := a.store.failing.Load(); why != nil {
		s.StoreError = wire.Brief((*why).Error())
	}
	s.Leftovers = a.leftovers()
	a.progress.fill(&s)
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	if n := a.engine.proofs[proofMissing]; n > 0 {
		s.Deferred, s.unproven = s.Deferred+n, true
		_, s.Awaits, _ = a.progress.log()
	}
	s.Queued = a.engine.queue.count
	for state, n := range a.engine.states {
		if n > 0 {
			s.States[state] = n
		}
	}
	return s
}

// keepStatus writes the status file whenever something has changed.
func (a *Agent) keepStatus(ctx context.Context) {
	var last Status
	for ctx.Err() == nil {
		now := a.Status()
		now.Running = true
		if !now.equal(last) {
			last = now
			if err := writeStatus(a.config.DataDir, now); err != nil {
				a.log.Warn("the status file cannot be written", "error", err)
			}
		}
		retry.Pause(ctx, statusEvery)
	}
}

// equal compares all but the time.
func (s Status) equal(o Status) bool {
	s.Updated, o.Updated = time.Time{}, time.Time{}
	return reflect.DeepEqual(s, o)
}
