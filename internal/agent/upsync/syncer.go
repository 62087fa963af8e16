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
	// fetchDelay is how long objects wait that have to be read again: mostly a watch shows
	// them meanwhile.
	fetchDelay = 200 * time.Millisecond
	// fetchMost is how many objects of a kind are read one by one; more are listed.
	fetchMost = 50
	// firstRestart and lastRestart bound how long to wait after the store has failed.
	firstRestart, lastRestart = time.Second, time.Minute
)

// Syncer keeps the reports of what was not placed, as long as anybody asks for any.
type Syncer struct {
	engine   *worklist.Worklist
	store    *store.Store
	target   *kubeclient.Client
	gate     *observe.Gate
	reporter *hubclient.Reporter
	log      *slog.Logger

	changed, replan, news, rests retry.Signal
	status                       atomic.Pointer[wire.SeesStatus]
	kinds                        atomic.Pointer[[]key.Resource]
	// failed says that the store did not take a change, so that nothing is known of it, and
	// missing that a kind that is observed is not served.
	failed, missing atomic.Bool

	// listing has a place for the one list that goes on at once.
	listing chan struct{}

	// mu guards what follows.
	mu       sync.Mutex
	ledger   *ledger
	watchers map[key.Resource]*watcher
	unread   map[key.Resource]string
}

// New makes a census that observes nothing before it runs.
func New(e *worklist.Worklist, st *store.Store, t *kubeclient.Client, g *observe.Gate, r *hubclient.Reporter, log *slog.Logger) *Syncer {
	return &Syncer{
		engine: e, store: st, target: t, gate: g, reporter: r, log: log,
		changed: retry.NewSignal(), replan: retry.NewSignal(), news: retry.NewSignal(), rests: retry.NewSignal(), listing: make(chan struct{}, 1),
	}
}

// Changed says that something else may be asked for. It does not block.
func (c *Syncer) Changed() { c.changed.Raise() }

// Status says what of that which is asked for does not come back; nil: nothing is missing.
func (c *Syncer) Status() *wire.SeesStatus { return c.status.Load() }

// Kinds are those that are read, or would be if the agent might.
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
		if err := c.life(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("what is asked for of the target has to be looked at anew", "error", err)
		}
		if time.Since(begun) > lastRestart {
			failures = 0
		}
		retry.Pause(ctx, retry.Backoff(failures, firstRestart, lastRestart))
	}
}

// errAnew says that what the census knows no longer holds.
var errAnew = errors.New("the store did not take what was seen, or the location puts objects elsewhere")

// life is one time of beginning with what the store has. It returns when ctx ends or nothing
// that is known holds any more.
func (c *Syncer) life(ctx context.Context) error {
	for c.store.Meta().Revision == 0 { // the hub's reports may not be in a new store yet
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil
		}
	}
	c.store.Roots().Take() // all are read now
	m := c.store.Meta()
	said, placing := m.Settings, m.Placing
	if err := c.load(said, placing); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer c.stopAll()
	defer end()
	p := planner{Syncer: c}
	defer p.stop()
	p.plan(ctx)
	var rested <-chan time.Time // nil: nothing is known to rest
	for {
		select {
		case <-c.changed:
			m := c.store.Meta()
			if m.Placing != placing {
				return errAnew
			}
			if asksSame(said, m.Settings) {
				continue
			}
			said = m.Settings
			c.with(ctx, func(l *ledger) { l.ask(newAsks(said.Upsync, placing), limitsOf(said)) })
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
		case <-c.rests:
			if rested == nil {
				rested = time.After(restFor)
			}
		case <-rested:
			rested = nil
			c.with(ctx, func(l *ledger) {
				if wait := l.rested(time.Now()); wait > 0 {
					rested = time.After(wait)
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

// asksSame says that settings ask for the same.
func asksSame(a, b wire.Settings) bool {
	return reflect.DeepEqual(a.Upsync, b.Upsync) && a.UpsyncObjects == b.UpsyncObjects && a.UpsyncBytes == b.UpsyncBytes
}

func limitsOf(s wire.Settings) limits {
	l := limits{s.UpsyncObjects, s.UpsyncBytes}
	if l.objects == 0 {
		l.objects = defaultObjects
	}
	if l.bytes == 0 {
		l.bytes = defaultBytes
	}
	return l
}

// load begins with what the store has.
func (c *Syncer) load(said wire.Settings, placing key.Placing) error {
	l := newLedger(newAsks(said.Upsync, placing), limitsOf(said))
	if err := c.store.EachSeen(func(line string, r key.Report, size int) error {
		l.stored(line, r.Origin, size)
		return nil
	}); err != nil {
		return err
	}
	if err := c.store.EachRoot(func(r store.Root) error {
		l.place(r.Identity.String(), r, true)
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

// placed takes over what has been placed, or is no more.
func (c *Syncer) placed(ctx context.Context) error {
	for id := range c.store.Roots().Take() {
		c.mu.Lock()
		_, known := c.ledger.rootsAt[id]
		c.mu.Unlock()
		at, err := key.ParseIdentity(id)
		if err != nil {
			return err
		}
		var r store.Root
		var ok bool
		if err := c.store.View(func(t *store.Tx) (err error) {
			r, ok, err = t.Root(at)
			return err
		}); err != nil {
			return err
		}
		c.with(ctx, func(l *ledger) {
			if known || ok {
				l.place(id, r, ok)
			}
			if n := l.at(at); n != nil && n.ours { // it may be born from now on
				l.needs[n] = struct{}{}
			}
		})
	}
	return nil
}

// at is the node of an identity; nil: there is none.
func (l *ledger) at(id key.Identity) *node {
	k := l.kinds[id.Resource]
	if k == nil || !k.full {
		return nil
	}
	return k.nodes[[2]string{id.Namespace, id.Name}]
}

// with changes the ledger, and hands to the store what follows of that.
func (c *Syncer) with(ctx context.Context, do func(*ledger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil || c.failed.Load() {
		return
	}
	do(c.ledger)
	c.flush(ctx)
}

// flush hands changes to the store. Those are taken in order, so mu is held.
func (c *Syncer) flush(ctx context.Context) {
	l := c.ledger
	for id, n := range l.leftOut {
		c.engine.LeaveOut(id, n)
	}
	clear(l.leftOut)
	if len(l.lacking) > 0 {
		c.replan.Raise()
	}
	if len(l.needs) > 0 || l.freed && len(l.waits) > 0 {
		c.news.Raise()
	}
	if len(l.resting) > 0 {
		c.rests.Raise()
	}
	c.tell()
	all := l.take()
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

// fail notes that the store did not take a change. It does not wait for mu, which is held
// while the store is waited for.
func (c *Syncer) fail() {
	c.failed.Store(true)
	c.news.Raise()
}

// tell sets the status.
func (c *Syncer) tell() {
	s := &wire.SeesStatus{LeftOut: c.ledger.waiting()}
	for _, r := range sortedKinds(c.unread) {
		if len(s.Unread) < wire.MaxUnread {
			s.Unread = append(s.Unread, wire.UnreadKind{Group: r.Group, Resource: r.Resource, Message: c.unread[r]})
		}
	}
	if s.LeftOut == 0 && len(s.Unread) == 0 {
		s = nil
	}
	c.status.Store(s)
}

// fetch reads again what passed by. Of many objects of a kind all are listed.
func (c *Syncer) fetch(ctx context.Context) {
	var read []*node
	var again []*watcher
	c.mu.Lock()
	l := c.ledger
	if l.refill(); len(l.needs) > 0 {
		by := map[*kind][]*node{}
		for n := range l.needs {
			by[n.kind] = append(by[n.kind], n)
		}
		for k, all := range by {
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
				delete(l.needs, n)
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
			w.again() // it is listed when that works
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ledger.needs, n)
}

func (c *Syncer) watcherOf(k *kind) *watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers[k.Resource]
}

// show takes note of objects of a kind. Those that seen has are noted in it; if that is nil,
// only those count that are known.
func (c *Syncer) show(ctx context.Context, k *kind, all []ownership.Answer, seen map[*node]struct{}) {
	known := seen == nil
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
		if l.kinds[k.Resource] != k {
			return
		}
		for _, s := range sightings {
			at := [2]string{s.meta.Namespace, s.meta.Name}
			if known && (k.nodes[at] == nil || k.nodes[at].uid != uidOf(s.meta.UID)) {
				continue
			}
			if l.see(s, now); !known {
				seen[k.nodes[at]] = struct{}{}
			}
		}
	})
}
