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
// and few after the context has ended. more is true if there is more to count. Each call makes some progress with
// both, and each turn begins after the space that had the last one. No caller of another method waits for an
// evaluation of another object.
func (t *Tracker) Work(ctx context.Context) (more bool) {
	t.working.Lock()
	defer t.working.Unlock()
	defer t.config.Work.End()
	more = applyInTurn(ctx, t)
	t.mu.Lock()
	rev, resets, isWhole := t.inbox.applied()
	t.rev = rev
	spaces := t.due.begin(isWhole && t.resets == resets, rev)
	t.mu.Unlock()
	least := 1
	if ctx.Err() != nil { // changes alone must not leave all pairs due
		least = minBudget
	}
	left := budget
	for i, s := range spaces {
		if left <= 0 || i > 0 && ctx.Err() != nil {
			return true
		}
		evaluated, hasMore := evaluateSome(ctx, t, s, least, max(minBudget, left/(len(spaces)-i)))
		left, more = left-evaluated, more || hasMore
	}
	return more
}

// evaluateSome evaluates some pairs of a space, the least number after the end of the context; more is true if pairs
// are still due.
func evaluateSome(ctx context.Context, t *Tracker, s key.Space, least, most int) (evaluated int, more bool) {
	var last *object
	for evaluated < most && (evaluated < least || ctx.Err() == nil) {
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
// not set: that would require the row of each location. If the context ends before all changes are applied, the
// counts are unknown, and the error is that of the context.
func (t *Tracker) Object(ctx context.Context, path string) (v1alpha1.Counts, error) {
	if o, err := key.ParsePath(path); err == nil {
		if err := t.apply(ctx, o.Space); err != nil {
			return v1alpha1.Counts{}, err
		}
	}
	for most := -1; ; most-- {
		t.mu.Lock()
		o := t.objects[path]
		if o == nil {
			t.mu.Unlock()
			return v1alpha1.Counts{}, nil
		}
		e, ok := o.next()
		if !ok || most == 0 || ctx.Err() != nil { // it has none left, or changes all the time
			defer t.mu.Unlock()
			return o.knownCounts(), nil
		}
		if most < 0 {
			most = 2 * len(o.states)
		}
		t.mu.Unlock()
		e.run(t)
	}
}
