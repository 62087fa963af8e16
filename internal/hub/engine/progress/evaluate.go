package progress

import (
	"context"

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
	t.setMemberDue(o, e.member, false)
	t.failedRules.set(o.id.Space, pair{o.path, e.site}, v.FailedRule)
	t.setState(o, e.member, stateOf(v))
}

// Work counts observed changes, and evaluates some of the due pairs, of each space in turn: budget pairs at most,
// and few after the context has ended. more is true if there is more to count. Each call makes some progress. No
// caller of another method waits for an evaluation of another object.
func (t *Tracker) Work(ctx context.Context) (more bool) {
	t.working.Lock()
	defer t.working.Unlock()
	defer t.config.Work.End()
	waiting, rev, resets := t.inbox.waiting()
	return work(ctx, t, waiting, rev, resets)
}

// work is Tracker.Work for the spaces with observed changes, up to a revision. resets is the number
// of Resets if the spaces include the complete state after the last one, or negative.
func work(ctx context.Context, t *Tracker, waiting []key.Space, rev int64, resets int) (more bool) {
	all := append(waiting, key.Root) // root has a Reset applied
	for i, s := range all {
		if err := t.apply(ctx, s); err != nil || i < len(all)-1 && ctx.Err() != nil {
			return true
		}
	}
	t.mu.Lock()
	t.rev = rev
	spaces := t.due.begin(t.resets == resets)
	t.mu.Unlock()
	left := budget
	for i, s := range spaces {
		if left <= 0 || i > 0 && ctx.Err() != nil {
			return true
		}
		evaluated, hasMore := evaluateSome(ctx, t, s, max(minBudget, left/(len(spaces)-i)))
		left, more = left-evaluated, more || hasMore
	}
	return more
}

// evaluateSome evaluates some pairs of a space, one after the end of the context; more is true if pairs are still
// due.
func evaluateSome(ctx context.Context, t *Tracker, s key.Space, most int) (evaluated int, more bool) {
	var last *object
	for evaluated < most && (evaluated == 0 || ctx.Err() == nil) {
		t.mu.Lock()
		t.due.last = s
		e, ok := t.due.next(s)
		t.mu.Unlock()
		if !ok {
			return evaluated, false
		}
		if e.o != last {
			last = e.o
			t.config.Work.Begin(key.OfPath(e.o.path))
		}
		t.config.Work.Step()
		e.run(t)
		evaluated++
	}
	return evaluated, true
}

// Object returns the counts of one object, by its path, with all observed changes. Pairs that are not evaluated
// before the context ends, or that change during all evaluations, count as assigned, and are in no state. Stale is
// not set: that would require the row of each location.
func (t *Tracker) Object(ctx context.Context, path string) v1alpha1.Counts {
	if o, err := key.ParsePath(path); err == nil && t.apply(ctx, o.Space) != nil {
		return v1alpha1.Counts{}
	}
	for most := -1; ; most-- {
		t.mu.Lock()
		o := t.objects[path]
		if o == nil {
			t.mu.Unlock()
			return v1alpha1.Counts{}
		}
		e, ok := o.next()
		if !ok || most == 0 || ctx.Err() != nil { // it has none left, or changes all the time
			defer t.mu.Unlock()
			return o.knownCounts()
		}
		if most < 0 {
			most = 2 * len(o.states)
		}
		t.mu.Unlock()
		e.run(t)
	}
}
