package worklist

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Worklist knows the identities that concern the agent and hands them to the
// workers. It never blocks and never does I/O.
type Worklist struct {
	*state
	observation
	resources
}

// New returns an empty worklist.
func New() *Worklist {
	s := newState()
	return &Worklist{state: s, observation: observation{s}, resources: resources{s}}
}

// Next waits for an item to work on. It returns false when ctx has ended.
func (e *Worklist) Next(ctx context.Context) (*Item, bool) {
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
		if e.may.mode != Closed {
			if it := e.queue.pop(time.Now(), (*kind).mayRun); it != nil {
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

// Ready is how many items wait for a worker, but not for a time.
func (e *Worklist) Ready() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.count
}

// Push queues the items for which isMeant returns true.
func (e *Worklist) Push(isMeant func(*Item) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, it := range e.items {
		if isMeant(it) {
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// Those returns the objects of the items for which isMeant returns true, each with the space in
// whose line it queues.
func (e *Worklist) Those(isMeant func(*Item) bool) (all []key.Located) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, it := range e.items {
		if isMeant(it) {
			all = append(all, it.located())
		}
	}
	return all
}

// alarm makes ready what is due, and sets the timer that wakes a worker when the next
// item is.
func (e *Worklist) alarm() {
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

// Stop ends the engine's timer.
func (e *Worklist) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// SetMode sets what workers may do, and why they may not change the target. When the worklist opens,
// each item whose change was withheld is queued.
func (e *Worklist) SetMode(m Mode, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for it := range e.may.set(m, why) {
		e.queue.push(it)
	}
	e.open.set(m == Open, time.Now())
	e.wake.Broadcast()
}

// Touch records desired entries that may have changed, and queues their items.
func (e *Worklist) Touch(all []store.Touched) {
	e.mu.Lock()
	changed := false
	for _, t := range all {
		it, more := e.item(t.Object, t.Moved)
		changed = changed || more
		if t.Want != nil {
			changed = it.learn(t.Want) || changed
		}
		if t.Want.Desired() {
			it.wanted = true
			e.leaves.stays(it)
		} else if it.spaces.one() {
			it.wanted = false
			e.leaves.leaving(it, t.Object.Space)
		}
		it.failures = 0
		it.seen.flags &^= taken
		e.queue.push(it)
	}
	e.wake.Broadcast()
	e.mu.Unlock()
	if changed {
		e.News.Raise()
	}
}

// View is a copy of what the engine knows of an item.
type View struct {
	// As is the owner in this turn, even if the engine's changes meanwhile.
	As ownership.Owner
	// History is the history of the cluster that the turn is of.
	History uint32
	Seen    decide.Observed
	Spaces  []key.Space
	// Source is what the item is called in its spaces.
	Source   key.Identity
	Place    kubeclient.Place
	Cause    string // why objects of the kind cannot be observed
	Shown    string // the version in which objects of the kind are observed; empty: they are not
	Kind     string
	State    wire.State
	wanted   bool
	Failures uint8
	// RepairDelay is how long to wait before drift is repaired, and Contested how much longer the
	// object counts as contested by another writer.
	RepairDelay, Contested time.Duration
	Ending                 decide.Ending
	Slotted                bool
	// Unreturned counts the objects that it owns and that are not reported.
	Unreturned int
	// Overdue is true if the object has been terminating for longer than Pods may take.
	Overdue bool
	// Halt is why the turn must not change anything at the target; empty: it may.
	Halt string
}

// View copies what the engine knows of an item, for the worker that has it.
func (e *Worklist) View(it *Item) View {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	v := View{
		As: e.as, History: it.kind.history, Seen: it.seen.observed(), Spaces: it.spaces.list(), Source: it.located().Source().Identity, State: it.state.value(), wanted: it.wanted, Failures: it.failures, Slotted: it.slotted,
		Place: kubeclient.Place{Resource: it.kind.resource, Version: it.kind.version}, Kind: it.kind.name,
		RepairDelay: it.repairs.delay(now), Contested: it.repairs.contestedFor(now), Ending: e.endings[it.ID], Unreturned: int(it.unreturned),
		Overdue: it.terminatingSince > 0 && e.open.elapsed(now)-it.terminatingSince >= PodsTimeout, Halt: e.may.halt(),
	}
	if it.kind.sight != decide.Absent { // the kind is not observed, so none of its objects is
		v.Seen.Existence, v.Cause = it.kind.sight, it.kind.cause
	} else {
		v.Shown = it.kind.version
	}
	return v
}

// Find finds the item of an identity, which its worker may have at the same time: it is for
// View alone.
func (e *Worklist) Find(id key.Identity) (*Item, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it, ok := e.items[id.String()]
	return it, ok
}

// Awaits reports whether an identity is desired, and whether its first turn has ended.
func (e *Worklist) Awaits(id key.Identity) (wanted, tried bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it, ok := e.items[id.String()]
	return ok && it.wanted, ok && !it.state.empty()
}

// Namesakes returns the identities of the same name in other resources. desired is true if
// one of them is desired and is, at the target, the object that has the UID.
func (e *Worklist) Namesakes(id key.Identity, uid string) (all []string, desired bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.kinds {
		other := key.Identity{Resource: r, Namespace: id.Namespace, Name: id.Name}.String()
		if it, ok := e.items[other]; ok && r != id.Resource {
			all = append(all, other)
			desired = desired || it.wanted && it.seen.existence == decide.Present && it.seen.id() == uid
		}
	}
	return all, desired
}

// Within counts the items in a Namespace, or of a CustomResourceDefinition: those that
// are desired and may be at the target, and those that are not desired.
func (e *Worklist) Within(id key.Identity) (wanted, leaving int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for it := range e.inside[id.String()] {
		switch {
		case it.wanted && it.missing():
		case it.wanted:
			wanted++
		case !it.over():
			leaving++
		}
	}
	return wanted, leaving
}

// Finish takes an item back from a worker.
func (e *Worklist) Finish(it *Item, r Result) {
	e.mu.Lock()
	now := time.Now()
	open := e.open.elapsed(now)
	if r.Seen != nil && r.As == e.as && r.History == it.kind.history {
		it.answered(*r.Seen, open)
	}
	if r.Hurried {
		it.terminatingSince = 0
		it.setSeen(it.seen.observed(), open)
	}
	if it.queue != again { // otherwise it may have become desired since
		it.spaces = it.spaces.without(r.Gone)
		it.wanted = r.Wanted
		r.Retry = e.leaves.left(it, r, open)
	}
	if r.Failed {
		it.failures = min(it.failures+1, retry.MaxFailures)
		it.kind.failures++
	} else {
		it.failures, it.kind.failures = 0, 0
	}
	if r.Drifted {
		it.repaired(now)
	}
	it.slotted = r.Slotted
	if !r.Failed || r.ProofKnown { // otherwise nothing new is known
		e.counters.prove(it, r.Proof)
	}
	first := it.state.empty() && r.State != ""
	e.counters.report(it, r.State)
	if e.Worked != nil {
		e.Worked(max(0, e.queue.timeOf(now)-it.when))
	}
	e.queue.done(it)
	if e.may.forget(it); r.Withheld && !e.may.withhold(it) {
		e.queue.push(it)
	}
	retry, awake := e.homeless.finish(it, r, e.items, first)
	if retry > 0 {
		e.queue.pushAt(it, now.Add(retry))
	}
	for _, other := range awake {
		e.queue.push(other)
	}
	unused := false
	switch {
	case !r.Forget || it.queue != idle:
	case it.seen.existence == decide.Present: // another object of ours has its name
		e.queue.push(it)
	case it.spaces.none():
		unused = e.drop(it)
	case it.over():
		e.pushContainers(it)
	}
	e.wake.Signal()
	e.mu.Unlock()
	if unused {
		e.News.Raise()
	}
}

// pushContainers queues what an item was in that is not desired: it may go now.
func (e *Worklist) pushContainers(it *Item) {
	for _, in := range Containers(it.Identity()) {
		if c, ok := e.items[in]; ok && !c.wanted {
			e.queue.push(c)
		}
	}
}

// drop forgets an item. It returns true if what is to be observed has changed.
func (e *Worklist) drop(it *Item) bool {
	e.counters.report(it, "")
	e.counters.prove(it, ownership.Unneeded)
	e.leaves.stays(it)
	delete(e.endings, it.ID)
	e.may.forget(it)
	for _, other := range e.homeless.leave(it, false) {
		e.queue.push(other)
	}
	emptied, changed := e.roster.remove(it)
	for _, c := range emptied {
		if !c.wanted { // it may go now
			e.queue.push(c)
		}
	}
	return changed
}

// Unread is the result of a turn for which nothing could be read: all stays as it is.
func (v View) Unread() Result {
	r := Result{Wanted: v.wanted, State: v.State, Failed: true, Retry: store.Retry, Leaving: !v.wanted}
	if len(v.Spaces) > 0 {
		r.Space = v.Spaces[0]
	}
	return r
}

// Ahead finds what has to be removed before an item. It returns false if the item may
// go; otherwise the item is queued when that is gone.
func (e *Worklist) Ahead(id string, aggregates bool) (Awaited, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it := e.items[id]
	if it == nil || it.leave == nil {
		return Awaited{}, false
	}
	return e.leaves.ahead(it, aggregates, e.open.elapsed(time.Now()))
}

// Count counts the items as they are now.
func (e *Worklist) Count() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := Counts{
		Items: len(e.items), Queued: e.queue.count, States: map[wire.State]int{},
		unasked: e.counters.proofs[ownership.Unasked], Missing: e.counters.proofs[ownership.Missing],
	}
	for state, n := range e.counters.states {
		if n > 0 {
			c.States[state] = n
		}
	}
	for _, k := range e.kinds {
		c.running += k.running
		c.unlisted = c.unlisted || k.version != "" && k.sight == decide.Unseen
	}
	return c
}
