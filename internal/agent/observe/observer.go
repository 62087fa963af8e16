package observe

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/diagnosis"
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxListRetry is the longest wait before a list or watch is tried again, blindRetry
	// the longest for a kind that the agent may not read.
	maxListRetry = 15 * time.Second
	blindRetry   = 5 * time.Minute
	// blindAfter is how many failures in a row make a kind blind: with the waits between
	// them, most of a minute.
	blindAfter = 10
)

// Observers keeps one list and watch per kind in use.
type Observers struct {
	engine *worklist.Worklist
	store  *store.Store
	target *kubeclient.Client
	log    *slog.Logger
	gate   *Gate
	age    *Age
	// Served is raised when a kind begins or ceases to be served.
	Served retry.Signal
	// Rewound is called for each list whose revision is below what was seen before. It may block until ctx ends.
	Rewound func(ctx context.Context)
	// Diagnoser receives each change of an object that the store has.
	Diagnoser Diagnoser

	running map[key.Resource]*observer

	mu sync.Mutex
	// missed are kinds with observations that the store could not record.
	missed map[key.Resource]struct{}
}

// Diagnoser finds out why objects are not healthy. Observe must not block, nor change l.
type Diagnoser interface {
	Observe(id string, place kubeclient.Place, l *store.Live)
}

// NewObservers returns observers that observe nothing before Run.
func NewObservers(e *worklist.Worklist, st *store.Store, t *kubeclient.Client, g *Gate, age *Age, log *slog.Logger) *Observers {
	return &Observers{engine: e, store: st, target: t, log: log, gate: g, age: age, Served: retry.NewSignal(), Rewound: func(context.Context) {}}
}

// observer observes one kind.
type observer struct {
	*Observers
	worklist.Use
	as ownership.Owner // the owner whose objects it observes
	// full is true if whole objects are observed. listed is true after all of them have been shown once.
	full   bool
	listed atomic.Bool
	// reached is the newest revision of its lists and watches; zero: there is none.
	reached uint64
	// origin is set when the store has recorded whether the kind has a CustomResourceDefinition.
	origin bool
	cancel context.CancelFunc
	done   chan struct{}
}

// miss records that the store could not keep observations.
func (o *Observers) miss(r key.Resource, ids []string) {
	o.engine.ForgetLive(ids)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missed == nil {
		o.missed = map[key.Resource]struct{}{}
	}
	o.missed[r] = struct{}{}
}

// takeMissed returns the kinds missed since the last call; none while the store fails.
func (o *Observers) takeMissed() map[key.Resource]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store.Failing() != nil {
		return nil
	}
	missed := o.missed
	o.missed = nil
	return missed
}

// Run keeps the observers that the worklist needs until ctx ends, and waits for them.
func (o *Observers) Run(ctx context.Context) {
	o.running = map[key.Resource]*observer{}
	for {
		o.sync(ctx)
		select {
		case <-o.engine.News:
		case <-o.store.Recovered(): // missed kinds are listed again
		case <-ctx.Done():
			for _, w := range o.running {
				w.stop()
			}
			return
		}
	}
}

// sync starts and stops observers so that they are those that the worklist needs.
func (o *Observers) sync(ctx context.Context) {
	self := o.engine.Self()
	if self == "" {
		return // without a UID the location owns nothing yet
	}
	uses, missed := o.engine.Uses(), o.takeMissed()
	for r, w := range o.running {
		_, again := missed[r]
		u, ok := uses[r]
		if again = again || u.StatusRequests != w.StatusRequests && w.listed.Load(); !again { // a list that goes on ends first
			u.StatusRequests = w.StatusRequests
		}
		if !ok || again || u != w.Use || w.as != self {
			w.stop()
			delete(o.running, r)
		}
	}
	for r, u := range uses {
		if o.running[r] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &observer{Observers: o, Use: u, as: self, full: health.HasStatus(r), cancel: cancel, done: make(chan struct{})}
		o.running[r] = w
		go w.run(ctx)
	}
}

// stop ends the observer and waits for it, so that none of its events arrives after those of its successor.
func (w *observer) stop() {
	w.cancel()
	<-w.done
}

// run observes until ctx ends.
func (w *observer) run(ctx context.Context) {
	defer close(w.done)
	var failures uint8
	revision, missing := "", false
	for ctx.Err() == nil {
		var err error
		if revision == "" {
			revision, err = w.list(ctx)
		}
		shown := err == nil
		if missing != kubeclient.MissingKind(err) {
			missing = !missing
			w.Served.Raise()
		}
		if err == nil {
			listed := revision
			if revision, err = w.target.Follow(ctx, w.Place, w.as.Selector(), revision, w.full, w.change(ctx)); revision != listed {
				failures = 0 // the watch delivered something
			}
			w.reached = max(w.reached, numberOf(revision))
		}
		if ctx.Err() != nil {
			return
		}
		wait := retry.Backoff(failures, retry.First, maxListRetry)
		failures = min(failures+1, retry.MaxFailures)
		switch {
		case err == nil: // the watch ended; it resumes
		case kubeclient.MissingKind(err):
			revision = ""
			if broken := w.target.Probe(ctx); broken != nil {
				w.gate.Trouble(broken) // discovery is broken, so it proves the deletion of no kind
				break
			}
			w.elsewhere(ctx)
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), errors.Is(err, kubeclient.ErrAnswer):
			revision = ""
			if !shown { // a kind that can be listed is not blind
				w.blinded(err)
			}
			wait = retry.Backoff(failures, retry.First, blindRetry) // a permission may be granted soon, or never
		case kubeclient.Expired(err):
			revision = ""
		default:
			w.log.Info("list or watch ended", "resource", w.Resource.String(), "error", err)
			w.gate.Trouble(err)
			switch {
			case kubeclient.Outage(err) && shown:
				revision = "" // the cluster may have been restored meanwhile
			case failures < blindAfter:
			case shown:
				revision = "" // list again: watches keep failing, lists do not
			case w.target.Probe(ctx) == nil:
				w.blinded(err) // only this kind fails, for longer than a restart takes
			}
		}
		retry.Pause(ctx, max(wait, kubeclient.RetryAfter(err)))
	}
}

// blinded records that the kind cannot be observed. Its objects are still applied, and their reports contain the
// fault.
func (w *observer) blinded(err error) {
	w.log.Warn("a resource cannot be observed, so drift in it is not seen", "resource", w.Resource.String(), "error", err)
	w.age.listed(w.Resource)
	w.engine.Lost(w.Resource, decide.Blind, wire.Brief(err.Error()))
}

// elsewhere observes a kind in another version that the target serves. If there is none, the kind is unserved.
// An object is the same in every version.
func (w *observer) elsewhere(ctx context.Context) {
	now, err := w.target.Find(ctx, w.Resource)
	switch {
	case err != nil:
		w.gate.Trouble(err)
	case now.Version == "" || now.Version == w.Version:
		w.engine.Lost(w.Resource, decide.Unserved, "")
	default:
		w.log.Info("a version is not served any more; its objects are observed in another one", "resource", w.Resource.String(), "was", w.Version, "now", now.Version)
		w.engine.Move(w.Use, now)
	}
}

// list reads all objects with our label and returns the list's revision.
func (w *observer) list(ctx context.Context) (string, error) {
	shown, answered := map[string]struct{}{}, worklist.Reached(w.engine, w.Resource)
	var began uint64
	begun := false
	revision, err := w.target.Pages(ctx, w.Place, "", w.as.Selector(), w.full, func(p *kubeclient.Page) (more bool, err error) {
		if !begun {
			begun, began = true, listRevision(p.Revision())
			w.begins(ctx, began, max(answered, w.reached))
		}
		seen, live := make([]worklist.Sighting, 0, len(p.Items)), make([]*store.Live, 0, len(p.Items))
		for i := range p.Items {
			s, l := w.sight(&p.Items[i], false)
			shown[s.Object.Identity.String()] = struct{}{}
			seen, live = append(seen, s), append(live, l)
		}
		return true, w.show(ctx, seen, live, began)
	})
	if err == nil {
		w.age.listed(w.Resource)
		w.origin = false  // the API can have moved to a definition, or from one, since the last list
		w.findOrigin(ctx) // before the list starts decisions about objects, since their reports contain it
		w.engine.Synced(w.as, w.Resource, shown, listRevision(revision))
		w.listed.Store(true)
		w.engine.News.Raise() // a space may have requested the status of objects that were shown before
	}
	return revision, err
}

// findOrigin records, for each list of a kind, whether the target serves it by a CustomResourceDefinition or by
// an aggregated API. The objects of a definition are deleted with it, while those of an aggregated API still
// exist. After an error the next list tries again.
func (w *observer) findOrigin(ctx context.Context) {
	if w.origin || w.Builtin() {
		return
	}
	definition := kubeclient.DefinitionOf(w.Resource)
	_, err := w.target.Get(ctx, kubeclient.CRDs, definition)
	aggregated := kubeclient.MissingObject(err, definition)
	if aggregated { // or the definition was deleted right after the list
		now, err := w.target.Find(ctx, w.Resource)
		if err != nil || now.Version == "" {
			return
		}
	} else if err != nil {
		return
	}
	if w.store.Meta().IsAggregated(w.Resource) != aggregated {
		if err := w.store.Write(ctx, func(t *store.Tx) error {
			t.Target.SetAggregated(w.Resource, aggregated)
			return nil
		}); err != nil {
			w.log.Warn("whether a resource is of an aggregated API can't be stored", "resource", w.Resource.String(), "error", err)
			return
		}
	}
	w.origin = true
}

// begins handles the revision of a list that has begun. reached is the newest revision that was observed before
// the request. A list below that belongs to a cluster whose etcd was restored, or to another cluster. Then all
// observations are discarded, and nothing is changed before the cluster's identity is confirmed.
func (w *observer) begins(ctx context.Context, revision, reached uint64) {
	if revision < reached {
		w.log.Warn("the cluster's revision is below what was seen before: its etcd was restored, or it is another cluster; all objects are compared anew",
			"resource", w.Resource.String(), "revision", revision, "seen", reached)
		if w.Builtin() { // the revisions of an aggregated API are those of its own store
			w.gate.Confirm("the cluster's revision is below what was seen before; its identity has to be confirmed")
		}
		worklist.Rewind(w.engine, w.as, &w.Resource)
		if w.Builtin() {
			w.Rewound(ctx)
		}
	}
	w.reached = 0
	if revision != worklist.Unordered {
		w.reached = revision
	}
}

// numberOf returns a revision as a number; 0: it is not one.
func numberOf(revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// listRevision returns a list's revision: an object that the list does not contain, and that was not changed
// since, is deleted. A revision that is not a number above 0, as of some aggregated API servers, has no order.
// Then every object outside the list counts as deleted, and objects that were created since are found by their
// next inspection.
func listRevision(text string) uint64 {
	if n := numberOf(text); n > 0 {
		return n
	}
	return worklist.Unordered
}

// change returns the function that handles the events of a watch.
func (w *observer) change(ctx context.Context) func(o *ownership.Observation, gone bool) error {
	return func(o *ownership.Observation, gone bool) error {
		s, l := w.sight(o, gone)
		return w.show(ctx, []worklist.Sighting{s}, []*store.Live{l}, 0)
	}
}

// sight returns the sighting of an observation, and the content of its report if a space requests the status.
func (w *observer) sight(o *ownership.Observation, gone bool) (worklist.Sighting, *store.Live) {
	m := &o.Metadata
	meta := w.store.Meta()
	located, ours := m.ProvesOurs(w.as, ownership.Kind{Resource: w.Resource, Name: w.Kind, Placing: meta.Placing, Shard: meta.Shard})
	if ours && !gone {
		w.age.saw(w.as, located.Identity, m)
	}
	s := worklist.Sighting{
		Object: located.Object, Moved: located.Moved, Ours: ours, Gone: gone,
		Seen: decide.Observed{
			UID: m.UID, Revision: m.Revision(), Fields: m.Fields(w.as), Terminating: m.DeletionTimestamp != "",
			Released: m.Released(), Log: m.Log(), Account: m.Account(), Heirloom: len(m.TakenFrom()) > 0,
		},
	}
	if !w.full || !ours {
		return s, nil
	}
	s.Ended = decide.HowEnded(w.Resource, o.Status)
	l := w.live(o)
	s.Health, s.Status = hashes(l, s.Ended)
	return s, l
}

// live returns the reported content of an observation.
func (w *observer) live(o *ownership.Observation) *store.Live {
	m := &o.Metadata
	l := &store.Live{UID: m.UID, Generation: m.Generation, Wanted: health.Wanted(w.Resource, o.Spec), Status: o.Status}
	l.Health, l.Detail = health.Assess(health.Object{
		APIVersion: w.GroupVersion(), Kind: w.Kind, Generation: m.Generation, Deleting: m.DeletionTimestamp != "",
		Spec: o.Spec, Status: o.Status,
	})
	l.IsSuspect = m.DeletionTimestamp == "" && diagnosis.IsNeeded(w.Resource, l.Health)
	return l
}

// hashes returns hashes of the reported content of an object, without and with its status. Without the status, a
// new detail alone is no change: some controllers write the time into conditions. The worklist keeps the end of
// an object, whose item then needs a decision.
func hashes(l *store.Live, ended string) (plain, withStatus uint64) {
	h := fnv.New64a() // a hash takes every write
	h.Write(fmt.Appendf(nil, "%s %d %s %s %t ", l.UID, l.Generation, l.Health, ended, l.IsSuspect))
	plain = h.Sum64()
	h.Write(strconv.AppendQuote(nil, l.Detail))
	if w := l.Wanted; w != nil {
		for _, n := range []*int64{w.Replicas, w.Partition, w.Completions, w.Parallelism} {
			if n == nil {
				h.Write([]byte{' '})
			} else {
				h.Write(strconv.AppendInt([]byte{'.'}, *n, 10))
			}
		}
	}
	h.Write([]byte{' '})
	h.Write(l.Status)
	return plain, h.Sum64()
}

// show passes sightings to the worklist, and their reported content to the store. list is the revision of the
// list that contained them; 0: a watch did.
func (w *observer) show(ctx context.Context, seen []worklist.Sighting, all []*store.Live, list uint64) error {
	changed := w.engine.Observe(w.as, seen, list)
	if len(changed) == 0 {
		return nil
	}
	ids := make([]string, 0, len(changed))
	live := make([]*store.Live, 0, len(changed))
	for _, c := range changed {
		ids = append(ids, seen[c.Index].Object.Identity.String())
		l := all[c.Index]
		if !c.WithStatus {
			l.Wanted, l.Status = nil, nil
		}
		live = append(live, l)
	}
	err := w.store.Submit(ctx, &store.Commit{
		Do: func(t *store.Tx) error {
			for n, l := range live {
				if err := t.Observed.Update(ids[n], l); err != nil {
					return err
				}
			}
			return nil
		},
		Done: func() {
			w.engine.Again(ids)
			for n, l := range live {
				w.Diagnoser.Observe(ids[n], w.Place, l)
			}
		},
		Failed: func(error) { w.miss(w.Resource, ids) },
	})
	if err != nil { // the observer has been stopped; the list of the next one shows them again
		w.engine.ForgetLive(ids)
	}
	return err
}
