package mapper

import (
	"context"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

// engine knows the identities that concern the agent and hands them to the
// workers. It never blocks and never does I/O.
type engine struct {
	mu   sync.Mutex
	wake sync.Cond
	// as is the owner whose marks tell which objects are ours.
	as     marks.Owner
	items  map[string]*item
	kinds  map[key.Resource]*kind
	states map[wire.State]int
	// proofs counts items by the proof of lineage of their objects.
	proofs [marks.Proofs]int
	queue  queue
	// inside has, by the identity of a Namespace or CustomResourceDefinition, the items
	// in it or of it.
	inside map[string]map[*item]struct{}
	// endings has, by identity, how Jobs and Pods at the target ran to their end.
	endings map[string]decide.Ending
	leaves  *leaves
	// closed says why nothing may be changed at the target; empty: it may.
	closed string
	open   openTime
	timer  *time.Timer
	// news is raised when the kinds to observe, the need for their status, or the owner
	// have changed.
	news retry.Signal
}

func newEngine() *engine {
	e := &engine{
		endings: map[string]decide.Ending{}, items: map[string]*item{}, kinds: map[key.Resource]*kind{}, states: map[wire.State]int{},
		inside: map[string]map[*item]struct{}{}, open: newOpenTime(time.Now()), news: retry.NewSignal(),
	}
	e.wake.L = &e.mu
	e.leaves = newLeaves(func(it *item) {
		e.queue.push(it)
		e.wake.Broadcast()
	})
	return e
}

// next waits for an item to work on. It returns false when ctx has ended.
func (e *engine) next(ctx context.Context) (*item, bool) {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wake.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for ctx.Err() == nil {
		e.alarm()
		if e.closed == "" {
			if it := e.queue.pop((*kind).mayRun); it != nil {
				if e.queue.count > 0 {
					e.wake.Signal() // each worker wakes the next
				}
				return it, true
			}
		}
		e.wake.Wait()
	}
	return nil, false
}

// push queues all items for which which returns true.
func (e *engine) push(which func(*item) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, it := range e.items {
		if which(it) {
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// alarm makes ready what is due, and sets the timer that wakes a worker when the next
// item is.
func (e *engine) alarm() {
	now := time.Now()
	due, some := e.queue.promote(now)
	if !some {
		return
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(due.Sub(now), func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.wake.Signal()
		})
		return
	}
	e.timer.Reset(due.Sub(now))
}

// stop ends the engine's timer.
func (e *engine) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// setClosed says why nothing may be changed at the target; empty: it may.
func (e *engine) setClosed(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = why
	e.open.set(why == "", time.Now())
	e.wake.Broadcast()
}

// touch records desired entries that may have changed, and queues their items.
func (e *engine) touch(all []store.Touched) {
	e.mu.Lock()
	changed := false
	for _, t := range all {
		it, more := e.item(t.Object)
		changed = changed || more
		if !slices.Contains(it.spaces, t.Object.Space) {
			it.spaces = append(it.spaces, t.Object.Space)
		}
		if w := t.Want; w != nil {
			it.wanted = true
			e.leaves.stays(it)
			changed = e.learn(it, w) || changed
		} else if len(it.spaces) == 1 {
			it.wanted = false
			e.leaves.leaving(it, t.Object.Space)
		}
		it.failures = 0
		it.seen.Taken = false
		e.queue.push(it)
	}
	e.wake.Broadcast()
	e.mu.Unlock()
	if changed {
		e.news.Raise()
	}
}

// item finds or makes the item of an object. It returns true if its kind is new.
func (e *engine) item(o key.Object) (*item, bool) {
	id := o.Identity.String()
	if it, ok := e.items[id]; ok {
		return it, false
	}
	k, ok := e.kinds[o.Resource]
	if !ok {
		k = &kind{resource: o.Resource, rank: o.Resource.Rank()}
		e.kinds[o.Resource] = k
	}
	k.items++
	it := &item{id: id, kind: k}
	if k.sight == decide.Absent {
		it.seen.Presence = decide.Absent
	}
	e.items[id] = it
	for _, in := range containers(o.Identity) {
		if e.inside[in] == nil {
			e.inside[in] = map[*item]struct{}{}
		}
		e.inside[in][it] = struct{}{}
	}
	return it, !ok
}

// learn takes from an entry what is needed to observe its kind. It returns true if that
// has changed.
func (e *engine) learn(it *item, w *store.Want) bool {
	k, changed := it.kind, false
	// Any version shows all objects; another is tried only if this one is not served.
	if w.Version != "" && (k.version == "" || k.sight == decide.Unserved && k.version != w.Version) {
		k.version, k.name, changed = w.Version, w.ObjectKind, true
	}
	if w.Object() == nil { // whether status is asked for, an entry with an object says
		return changed
	}
	asks := w.Object().Policy.ReturnStatus || decide.RunsOnce(k.resource)
	if asks == it.status {
		return changed
	}
	before := k.status > 0
	it.status = asks
	if asks {
		k.status++
	} else {
		k.status--
	}
	return changed || before != (k.status > 0)
}

// view is what the engine knows of an item.
type view struct {
	// as is the owner in this turn, even if the engine's changes meanwhile.
	as       marks.Owner
	seen     decide.Observed
	spaces   []key.Space
	at       target.Place
	cause    string // why objects of the kind cannot be observed
	shown    string // the version in which objects of the kind are observed; empty: they are not
	kind     string
	state    wire.State
	failures uint8
	// calm is how long to wait before drift is repaired, contested how much longer the
	// object counts as contested by another writer.
	calm, contested time.Duration
	ending          decide.Ending
	slotted         bool
	// overdue says that the object has been terminating for longer than Pods may take.
	overdue bool
}

// view copies what the engine knows of an item that a worker has.
func (e *engine) view(it *item) view {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	v := view{
		as: e.as, seen: it.seen, spaces: slices.Clone(it.spaces), state: it.state, failures: it.failures, slotted: it.slotted,
		at: target.Place{Resource: it.kind.resource, Version: it.kind.version}, kind: it.kind.name,
		calm: repairDelay(it.repairs, it.repaired, now), contested: contest(it.repairs, it.repaired, now), ending: e.endings[it.id],
		overdue: it.doomed > 0 && e.open.at(now)-it.doomed >= podsPatience,
	}
	if it.kind.sight != decide.Absent { // the kind is not observed, so none of its objects is
		v.seen.Presence, v.cause = it.kind.sight, it.kind.cause
	} else {
		v.shown = it.kind.version
	}
	return v
}

// awaits says whether an identity is desired and its first turn has not ended yet.
func (e *engine) awaits(id key.Identity) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	it, ok := e.items[id.String()]
	return ok && it.wanted && it.state == ""
}

// namesakes returns the identities of the same name in other resources. desired says
// that one of them is desired and is, at the target, the object that has the UID.
func (e *engine) namesakes(id key.Identity, uid string) (all []string, desired bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.kinds {
		other := key.Identity{Resource: r, Namespace: id.Namespace, Name: id.Name}.String()
		if it, ok := e.items[other]; ok && r != id.Resource {
			all = append(all, other)
			desired = desired || it.wanted && it.seen.Presence == decide.Present && it.seen.UID == uid
		}
	}
	return all, desired
}

// within counts the items in a Namespace, or of a CustomResourceDefinition: those that
// are desired and may be at the target, and those that are not desired.
func (e *engine) within(id key.Identity) (wanted, leaving int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for it := range e.inside[id.String()] {
		switch {
		case it.wanted && it.missing():
		case it.wanted:
			wanted++
		default:
			leaving++
		}
	}
	return wanted, leaving
}

// result is what a worker made of an item.
type result struct {
	// seen replaces what was observed, unless that is newer; as is the owner by whose
	// marks it was seen.
	seen *decide.Observed
	as   marks.Owner
	// gone are spaces that have neither an entry nor a report of the item any more.
	gone    []key.Space
	wanted  bool
	forget  bool
	state   wire.State
	retry   time.Duration
	failed  bool
	drifted bool
	slotted bool
	proof   marks.Proof
	// judged says that the proof is known, even if the turn failed.
	judged bool
	// leaving says that the item is being removed, held that it waits for others first.
	leaving, held bool
	space         key.Space // of the source
	// hurried says that the object was told to terminate without waiting for its Pods.
	hurried bool
}

// finish takes an item back from a worker.
func (e *engine) finish(it *item, r result) {
	e.mu.Lock()
	now := time.Now()
	if r.seen != nil {
		e.answered(it, r.as, *r.seen)
	}
	if r.hurried {
		it.doomed = 0
		e.sees(it, it.seen)
	}
	if it.queue != again { // otherwise it may have become desired since
		it.spaces = slices.DeleteFunc(it.spaces, func(s key.Space) bool { return slices.Contains(r.gone, s) })
		it.wanted = r.wanted
		r.retry = e.leaves.left(it, r, e.open.at(now))
	}
	if r.failed {
		it.failures = min(it.failures+1, retry.MaxFailures)
		it.kind.failures++
	} else {
		it.failures, it.kind.failures = 0, 0
	}
	if r.drifted {
		if repairDelay(it.repairs, it.repaired, now) == 0 && now.Sub(it.repaired) > repairCalm<<4 {
			it.repairs = 0
		}
		it.repairs, it.repaired = min(it.repairs+1, retry.MaxFailures), now
	}
	it.slotted = r.slotted
	if !r.failed || r.judged { // otherwise nothing new is known
		e.prove(it, r.proof)
	}
	e.count(it, r.state)
	e.queue.done(it)
	if r.retry > 0 {
		e.queue.pushAt(it, now.Add(r.retry))
	}
	unused := false
	switch {
	case !r.forget || it.queue != idle || len(it.spaces) > 0:
	case it.seen.Presence == decide.Present: // another object of ours has its name
		e.queue.push(it)
	default:
		unused = e.drop(it)
	}
	e.wake.Signal()
	e.mu.Unlock()
	if unused {
		e.news.Raise()
	}
}

func (e *engine) count(it *item, s wire.State) {
	if it.state != "" {
		e.states[it.state]--
	}
	if s != "" {
		e.states[s]++
	}
	it.state = s
}

// drop forgets an item. It returns true if that changes what is to be observed.
func (e *engine) drop(it *item) bool {
	e.count(it, "")
	e.prove(it, marks.Unneeded)
	e.leaves.stays(it)
	delete(e.items, it.id)
	for _, in := range containers(parseIdentity(it.id)) {
		if delete(e.inside[in], it); len(e.inside[in]) > 0 {
			continue
		}
		delete(e.inside, in)
		if c, ok := e.items[in]; ok && !c.wanted { // the container may go now
			e.queue.push(c)
		}
	}
	delete(e.endings, it.id)
	it.kind.items--
	before := it.kind.status > 0
	if it.status {
		it.kind.status--
	}
	if it.kind.items == 0 {
		delete(e.kinds, it.kind.resource)
		return true
	}
	return before != (it.kind.status > 0)
}
