package progress

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// run evaluates a pair, and counts it unless it has changed meanwhile: then it is still due. The caller does
// not hold the lock.
func (e evaluation) run(t *Tracker) {
	v := e.status(t.config.Digest)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := e.o
	if t.objects[o.path] != o || !o.due.contains(e.member) || o.evaluation(e.member) != e {
		return
	}
	o.due.remove(e.member)
	t.blames.note(o.id.Space, pair{o.path, e.site}, v.FailedRule)
	from, to := o.states[e.member], stateOf(v)
	o.states[e.member] = to
	t.move(o, e.site, from, to)
}

// Work counts what has been observed, and evaluates some of the pairs that are due, of each space in turn.
// more is true if pairs are still due. No caller of another method waits for an evaluation of another object.
func (t *Tracker) Work() (more bool) {
	t.working.Lock()
	defer t.working.Unlock()
	defer t.config.Work.End()
	waiting, rev, whole := t.inbox.waiting()
	return work(t, waiting, rev, whole)
}

// work is Tracker.Work for the spaces of which something has changed, up to a revision. whole is the number
// of Resets if the spaces include the complete state after the last one, or negative.
func work(t *Tracker, waiting []key.Space, rev int64, whole int) (more bool) {
	for _, s := range append(waiting, key.Root) { // root has a Reset applied
		t.apply(s)
	}
	t.mu.Lock()
	t.rev = rev
	spaces := t.due.begin(t.load == whole)
	t.mu.Unlock()
	for _, s := range spaces {
		more = evaluateSome(t, s, max(minBudget, budget/len(spaces))) || more
	}
	return more
}

// evaluateSome evaluates some pairs of a space; more is true if pairs are still due.
func evaluateSome(t *Tracker, s key.Space, most int) (more bool) {
	var last *object
	for range most {
		t.mu.Lock()
		e, ok := t.due.next(s)
		t.mu.Unlock()
		if !ok {
			return false
		}
		if e.o != last {
			last = e.o
			t.config.Work.Begin(key.OfPath(e.o.path))
		}
		t.config.Work.Step()
		e.run(t)
	}
	return true
}

// Object returns the counts of one object, by its path, with all observed changes. An object that changes
// during all evaluations keeps its former counts. Stale is not set: that would require a look at each location.
func (t *Tracker) Object(path string) v1alpha1.Counts {
	if o, err := key.ParsePath(path); err == nil {
		t.apply(o.Space)
	}
	for most := -1; ; most-- {
		t.mu.Lock()
		o := t.objects[path]
		if o == nil {
			t.mu.Unlock()
			return v1alpha1.Counts{}
		}
		e, ok := o.next()
		if counts := o.counts; !ok || most == 0 { // the object changes all the time
			t.mu.Unlock()
			return counts
		}
		if most < 0 {
			most = 2 * len(o.states)
		}
		t.mu.Unlock()
		e.run(t)
	}
}
