package upsync

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// fetchDelay is the wait before objects are read again. In most cases a watch returns them in this time.
	fetchDelay = 200 * time.Millisecond
	// fetchMost is the maximum number of objects of a kind that are read one by one. For more, the kind is listed.
	fetchMost = 50
	// firstRestart and lastRestart bound the wait after the store has failed.
	firstRestart, lastRestart = time.Second, time.Minute
)

// Syncer keeps the reports of upsynced and associated objects in the store, as long as a space requests any.
type Syncer struct {
	engine   *worklist.Worklist
	store    *store.Store
	target   *kubeclient.Client
	gate     *observe.Gate
	reporter *hubclient.Reporter
	log      *slog.Logger

	changed, replan, news, delayed retry.Signal
	status                         atomic.Pointer[wire.UpsyncStatus]
	kinds                          atomic.Pointer[[]key.Resource]
	// failed is true if the store has refused a change, so that its content is unknown. missing is true if an
	// observed kind is not served.
	failed, missing atomic.Bool

	// listing limits the number of concurrent lists to one.
	listing chan struct{}

	// mu guards the fields below.
	mu       sync.Mutex
	ledger   *ledger
	watchers map[key.Resource]*watcher
	unread   map[key.Resource]string
}

// New returns a Syncer that observes nothing before Run.
func New(e *worklist.Worklist, st *store.Store, t *kubeclient.Client, g *observe.Gate, r *hubclient.Reporter, log *slog.Logger) *Syncer {
	return &Syncer{
		engine: e, store: st, target: t, gate: g, reporter: r, log: log,
		changed: retry.NewSignal(), replan: retry.NewSignal(), news: retry.NewSignal(), delayed: retry.NewSignal(), listing: make(chan struct{}, 1),
	}
}

// Changed notifies the Syncer that the requests of spaces may have changed. It does not block.
func (c *Syncer) Changed() { c.changed.Raise() }

// Status describes the requested objects that are not reported; nil: all are.
func (c *Syncer) Status() *wire.UpsyncStatus { return c.status.Load() }

// Kinds returns the observed kinds, including those that the agent may not read.
func (c *Syncer) Kinds() []key.Resource {
	if all := c.kinds.Load(); all != nil {
		return *all
	}
	return nil
}

// Run observes until ctx ends.
func (c *Syncer) Run(ctx context.Context) {
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		begun := time.Now()
		if err := c.session(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("the reports of upsynced objects are computed again", "error", err)
		}
		if time.Since(begun) > lastRestart {
			failures = 0
		}
		retry.Pause(ctx, retry.Backoff(failures, firstRestart, lastRestart))
	}
}

// errAnew is returned if the ledger does not match the store any more.
var errAnew = errors.New("the store has refused a change, or the namespace mapping of the location has changed")

// session observes from a new ledger, with the content of the store, until ctx ends or the ledger does not match
// the store any more.
func (c *Syncer) session(ctx context.Context) error {
	for c.store.Meta().Revision == 0 { // a new store may not have the reports of the hub yet
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil
		}
	}
	c.store.Roots().Take() // load reads all
	m := c.store.Meta()
	settings, placing := m.Settings, m.Placing
	if err := c.load(settings, placing); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer c.stopAll()
	defer end()
	p := planner{Syncer: c}
	defer p.stop()
	p.plan(ctx)
	var wake <-chan time.Time // nil: no report is delayed
	for {
		select {
		case <-c.changed:
			m := c.store.Meta()
			if m.Placing != placing {
				return errAnew
			}
			if requestsSame(settings, m.Settings) {
				continue
			}
			settings = m.Settings
			c.with(ctx, func(l *ledger) { l.setRequests(newRequests(settings.Upsync, placing), limitsOf(settings)) })
			p.plan(ctx)
		case <-c.store.Roots().Signal:
			if err := c.placed(ctx); err != nil {
				return err
			}
			p.plan(ctx)
		case <-c.replan:
			p.plan(ctx)
		case <-p.due:
			p.discover, p.due = true, nil
			p.plan(ctx)
		case <-c.delayed:
			if wake == nil {
				wake = time.After(reportDelay)
			}
		case <-wake:
			wake = nil
			c.with(ctx, func(l *ledger) {
				if wait := l.reads.requestDelayed(time.Now()); wait > 0 {
					wake = time.After(wait)
				}
			})
		case <-c.news:
			if c.failed.Load() {
				return errAnew
			}
			retry.Pause(ctx, fetchDelay)
			c.fetch(ctx)
		case <-ctx.Done():
			return nil
		}
		if c.failed.Load() {
			return errAnew
		}
	}
}

// requestsSame reports whether two settings have the same requests.
func requestsSame(a, b wire.Settings) bool {
	return reflect.DeepEqual(a.Upsync, b.Upsync) && a.UpsyncObjects == b.UpsyncObjects && a.UpsyncBytes == b.UpsyncBytes
}

// load creates the ledger from the content of the store.
func (c *Syncer) load(settings wire.Settings, placing key.Placing) error {
	l := newLedger(newRequests(settings.Upsync, placing), limitsOf(settings))
	if err := c.store.EachSeen(func(line string, r key.Report, size int) error {
		l.out.load(line, r.Origin, size)
		return nil
	}); err != nil {
		return err
	}
	if err := c.store.EachRoot(func(r store.Root) error {
		l.associated.place(r.Identity.String(), r, true) // reports are removed once the kinds are listed
		return nil
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger, c.watchers, c.unread = l, map[key.Resource]*watcher{}, map[key.Resource]string{}
	c.failed.Store(false)
	return nil
}

// placed updates the ledger with changes of placed objects.
func (c *Syncer) placed(ctx context.Context) error {
	for id := range c.store.Roots().Take() {
		c.mu.Lock()
		_, known := c.ledger.associated.rootsAt[id]
		c.mu.Unlock()
		identity, err := key.ParseIdentity(id)
		if err != nil {
			return err
		}
		var r store.Root
		var ok bool
		if err := c.store.View(func(t *store.Tx) (err error) {
			r, ok, err = t.Root(identity)
			return err
		}); err != nil {
			return err
		}
		c.with(ctx, func(l *ledger) {
			if known || ok {
				l.place(id, r, ok)
			}
			if n := l.graph.get(identity); n != nil && n.placed { // it may be an upsynced object from now on
				l.reads.need(n)
			}
		})
	}
	return nil
}

// with changes the ledger, and submits the resulting changes to the store.
func (c *Syncer) with(ctx context.Context, do func(*ledger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil || c.failed.Load() {
		return
	}
	do(c.ledger)
	c.flush(ctx)
}

// flush submits changes to the store. The caller holds mu, which keeps them in order.
func (c *Syncer) flush(ctx context.Context) {
	l := c.ledger
	for id, n := range l.associated.omitted {
		c.engine.LeaveOut(id, n)
	}
	clear(l.associated.omitted)
	if len(l.associated.lacking) > 0 {
		c.replan.Raise()
	}
	if len(l.reads.needed) > 0 || l.upsynced.budget.freed && len(l.upsynced.waits) > 0 {
		c.news.Raise()
	}
	if len(l.reads.delayed) > 0 {
		c.delayed.Raise()
	}
	c.setStatus()
	all := l.out.take()
	if len(all) == 0 {
		return
	}
	if err := c.store.Submit(ctx, &store.Commit{
		Do: func(t *store.Tx) error {
			for _, ch := range all {
				var err error
				if ch.report == nil {
					err = t.Reports.Set(ch.line, nil)
				} else {
					err = t.Reports.Update(ch.line, ch.report)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		Done:   c.reporter.Changed,
		Failed: func(error) { c.fail() },
	}); err != nil {
		c.fail() // the agent stops
	}
}

// fail records that a commit to the agent's store has failed, so that the syncer stops the agent. It does not take mu, which the waiting goroutine may hold.
func (c *Syncer) fail() {
	c.failed.Store(true)
	c.news.Raise()
}

// setStatus sets the status.
func (c *Syncer) setStatus() {
	s := &wire.UpsyncStatus{Omitted: c.ledger.upsynced.waiting()}
	for _, r := range sortedKinds(c.unread) {
		if len(s.Unread) < wire.MaxUnread {
			s.Unread = append(s.Unread, wire.UnreadKind{Group: r.Group, Resource: r.Resource, Message: c.unread[r]})
		}
	}
	if s.Omitted == 0 && len(s.Unread) == 0 {
		s = nil
	}
	c.status.Store(s)
}

// fetch reads the objects of the needed nodes. If a kind has many of them, it is listed.
func (c *Syncer) fetch(ctx context.Context) {
	var read []*node
	var again []*watcher
	c.mu.Lock()
	l := c.ledger
	if l.upsynced.refill(); len(l.reads.needed) > 0 {
		byKind := map[*kind][]*node{}
		for n := range l.reads.needed {
			byKind[n.kind] = append(byKind[n.kind], n)
		}
		for k, all := range byKind {
			w := c.watchers[k.Resource]
			switch {
			case w == nil || !k.full:
			case len(all) > fetchMost:
				again = append(again, w)
			default:
				read = append(read, all...)
				continue
			}
			for _, n := range all {
				delete(l.reads.needed, n)
			}
		}
	}
	c.mu.Unlock()
	for _, w := range again {
		w.again()
	}
	for _, n := range read {
		if ctx.Err() != nil {
			return
		}
		c.fetchOne(ctx, n)
	}
	c.with(ctx, (*ledger).conclude)
}

func (c *Syncer) fetchOne(ctx context.Context, n *node) {
	k := n.kind
	o, err := c.target.GetAll(ctx, k.Place, n.identity())
	if err == nil && o.Metadata.UID == "" {
		err = kubeclient.ErrAnswer
	}
	switch {
	case err == nil:
		c.show(ctx, k, []ownership.Answer{*o}, nil)
	case kubeclient.MissingObject(err, n.identity()), kubeclient.MissingKind(err):
	default:
		c.gate.Trouble(err)
		if w := c.watcherOf(k); w != nil && ctx.Err() == nil {
			w.again() // the list is repeated until it succeeds
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ledger.reads.needed, n)
}

func (c *Syncer) watcherOf(k *kind) *watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers[k.Resource]
}

// show records the present state of objects of a kind, and adds their nodes to seen. If seen is nil, it ignores
// objects without a node.
func (c *Syncer) show(ctx context.Context, k *kind, all []ownership.Answer, seen map[*node]struct{}) {
	onlyKnown := seen == nil
	recorded := map[int]bool{}
	if k.full {
		if err := c.store.View(func(t *store.Tx) error {
			for i := range all {
				m := &all[i].Metadata
				id := key.Identity{Resource: k.Resource, Namespace: m.Namespace, Name: m.Name}
				if !t.Records.Contains(id.String()) {
					continue
				}
				rec, err := t.Records.Get(id.String())
				if err != nil {
					return err
				}
				recorded[i] = rec.UID == m.UID
			}
			return nil
		}); err != nil {
			c.fail()
			return
		}
	}
	sightings, now := make([]*sighting, 0, len(all)), time.Now()
	for i := range all {
		sightings = append(sightings, sight(k, &all[i], recorded[i]))
	}
	c.with(ctx, func(l *ledger) {
		if l.graph.kinds[k.Resource] != k {
			return
		}
		for _, s := range sightings {
			name := [2]string{s.meta.Namespace, s.meta.Name}
			if onlyKnown && (k.nodes[name] == nil || k.nodes[name].uid != uidOf(s.meta.UID)) {
				continue
			}
			if l.see(s, now); !onlyKnown {
				seen[k.nodes[name]] = struct{}{}
			}
		}
	})
}
