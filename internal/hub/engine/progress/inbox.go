package progress

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// inbox keeps the newest row of every key that changed, by space, so that its size is bounded by
// the number of keys. It is filled while the table is locked, so filling it does nothing else.
type inbox struct {
	mu sync.Mutex
	// resets is the number of Resets, each of which makes all earlier rows invalid. awaitsState is true from a
	// Reset until the next Observe, which has the revision stateRev.
	resets      int
	awaitsState bool
	stateRev    int64
	rev         int64
	spaces      map[key.Space]*changedRows
}

// changedRows are the changed rows of a space by key, nil for a deleted one. They are taken in generations: a row
// that changes while its generation is taken is replaced, and one that changes first joins the next. So each
// generation ends, even if the space changes all the time.
type changedRows struct {
	current, next map[string]*table.Row
	// currentRev and nextRev are the revisions of the oldest changes.
	currentRev, nextRev int64
}

// record records a row that has changed at a revision.
func (c *changedRows) record(rev int64, k string, row *table.Row) {
	if _, ok := c.current[k]; ok {
		c.current[k] = row
		return
	}
	if c.next == nil {
		c.next, c.nextRev = map[string]*table.Row{}, rev
	}
	c.next[k] = row
}

// begin begins the next generation if the current one has ended.
func (c *changedRows) begin() {
	if len(c.current) == 0 {
		c.current, c.currentRev, c.next = c.next, c.nextRev, nil
	}
}

// generations returns the number of generations that have all recorded rows.
func (c *changedRows) generations() (n int) {
	for _, rows := range []map[string]*table.Row{c.current, c.next} {
		if len(rows) > 0 {
			n++
		}
	}
	return n
}

// oldest returns the revision of the oldest change.
func (c *changedRows) oldest() int64 {
	if len(c.current) > 0 {
		return c.currentRev
	}
	return c.nextRev
}

// maxApplied is the weight of the changes that are applied at a time, while the Tracker is locked, and
// maxAppliedByWork the weight of those that one call of Work applies, of all spaces.
const maxApplied, maxAppliedByWork = 1024, 64 * maxApplied

// Reset forgets everything; the next Observe shows a whole state.
func (t *Tracker) Reset() {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.resets, t.inbox.awaitsState, t.inbox.spaces = t.inbox.resets+1, true, map[key.Space]*changedRows{}
}

// Observe records the changes of one revision.
func (t *Tracker) Observe(rev int64, changes []table.Change) {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	if t.inbox.awaitsState {
		t.inbox.awaitsState, t.inbox.stateRev = false, rev
	}
	t.inbox.rev = rev
	for _, c := range changes {
		k := c.Row().Key
		s, _, _, ok := key.Split(k)
		if !ok {
			_, s, _, ok = key.ReportOf(k)
		}
		if ok {
			t.inbox.record(s, k, c.Cur)
		}
	}
}

func (in *inbox) record(s key.Space, k string, row *table.Row) {
	rows := in.spaces[s]
	if rows == nil {
		rows = &changedRows{}
		in.spaces[s] = rows
	}
	rows.record(in.rev, k, row)
}

// take moves rows of the current generation of a space into some, which is empty, until their weight exceeds
// maxApplied. resets is the number of Resets, and isEnded is true if the generation has no more rows.
func (in *inbox) take(s key.Space, some map[string]*table.Row, weigh func(string, *table.Row) int) (resets, weight int, isEnded bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rows := in.spaces[s]
	if rows == nil {
		return in.resets, 0, true
	}
	rows.begin()
	for k, row := range rows.current {
		if weight > maxApplied {
			return in.resets, weight, false
		}
		weight += weigh(k, row)
		some[k] = row
		delete(rows.current, k)
	}
	if len(rows.next) == 0 {
		delete(in.spaces, s)
	}
	return in.resets, weight, true
}

// generations returns the number of generations that have all observed changes of a space, and is 1 at least: a
// Reset is applied with the changes of any space.
func (in *inbox) generations(s key.Space) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if rows := in.spaces[s]; rows != nil {
		return max(1, rows.generations())
	}
	return 1
}

// applied returns the revision up to which all changes were taken. resets is the number of Resets, and isWhole is
// true if the state after the last one was observed and taken.
func (in *inbox) applied() (rev int64, resets int, isWhole bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rev = in.rev
	for _, rows := range in.spaces {
		rev = min(rev, rows.oldest()-1)
	}
	return rev, in.resets, !in.awaitsState && rev >= in.stateRev
}

// appliedOf returns the revision up to which all changes of a space were taken.
func (in *inbox) appliedOf(s key.Space) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	if rows := in.spaces[s]; rows != nil {
		return rows.oldest() - 1
	}
	return in.rev
}

// turn is a space with the number of generations of its changes that are still to be applied.
type turn struct {
	space       key.Space
	generations int
}

// pending returns the spaces with observed changes, and root, in their order. It begins after the space last.
func (in *inbox) pending(last key.Space) (all []turn) {
	in.mu.Lock()
	all = append(all, turn{key.Root, 1}) // a Reset is applied with it
	for s, rows := range in.spaces {
		if s == key.Root {
			all[0].generations = rows.generations()
			continue
		}
		all = append(all, turn{s, rows.generations()})
	}
	in.mu.Unlock()
	slices.SortFunc(all, func(x, y turn) int { return cmp.Compare(x.space, y.space) })
	next, _ := slices.BinarySearchFunc(all, last+"\x00", func(x turn, s key.Space) int { return cmp.Compare(x.space, s) })
	return slices.Concat(all[next:], all[:next])
}

// applyInTurn applies the observed changes of all spaces, of each in turn as many as one hold of the lock may take.
// It begins after the space that had the last turn, and ends after maxAppliedByWork or with the context; more is
// true if some are left. Each call applies some.
func applyInTurn(ctx context.Context, t *Tracker) (more bool) {
	some, total := map[string]*table.Row{}, 0
	for pending := t.inbox.pending(t.lastApplied); len(pending) > 0; {
		var again []turn
		for i, one := range pending {
			if total > maxAppliedByWork || i+total > 0 && ctx.Err() != nil {
				return true
			}
			t.lastApplied = one.space
			weight, isEnded := t.applySome(one.space, some)
			if total += weight; isEnded {
				one.generations--
			}
			if one.generations > 0 {
				again = append(again, one)
			}
			clear(some)
		}
		pending = again
	}
	return false
}

// apply applies the changes of a space that were observed before the call, or some of them if the context ends. It
// evaluates nothing: the pairs whose state may have changed are due from then on. Changes are taken and applied
// under one lock, so that no older one is applied after a newer.
func (t *Tracker) apply(ctx context.Context, s key.Space) error {
	some := map[string]*table.Row{}
	for left := t.inbox.generations(s); ; {
		if _, isEnded := t.applySome(s, some); isEnded {
			left--
		}
		if left == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(some)
	}
}

// applySome applies observed changes of the current generation of a space, as many as one hold of the lock may
// take.
func (t *Tracker) applySome(s key.Space, some map[string]*table.Row) (weighed int, isEnded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	resets, weighed, isEnded := t.inbox.take(s, some, func(k string, row *table.Row) int { return weight(t.objects, k, row) })
	if resets != t.resets {
		t.resets = resets
		t.clear()
	}
	for k, row := range some {
		t.applyRow(k, row)
	}
	return weighed, isEnded
}

// rowWeight is the weight of a row without locations.
const rowWeight = 4

// weight returns the weight of the change of a row. The cost of an object grows with its locations, and that of a
// location or space with the Placements.
func weight(objects map[string]*object, k string, row *table.Row) int {
	if s, r, _, ok := key.Split(k); ok && s == key.Root && (r == key.Locations || r == key.Spaces) {
		return maxApplied
	}
	weight := rowWeight
	if path, ok := key.PathOf(k); ok {
		if o := objects[path]; o != nil {
			weight += len(o.states)
		}
	}
	if row != nil {
		if as, ok := row.In.(*placement.Membership); ok {
			weight += len(as.Members()) + len(as.Refused())
		}
	}
	return weight
}

func (t *Tracker) applyRow(k string, row *table.Row) {
	if key.ClassOf(k) == key.Reports {
		if r, err := key.ParseReport(k); err == nil && r.Origin == key.Placed {
			t.replaceReport(r, row)
		}
		return
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return
	}
	switch {
	case o.Resource == key.Placements:
		t.policies.updatePlacement(&t.totals, o, row)
	case o.Resource == key.Locations && o.Space == key.Root:
		t.policies.updateLocation(&t.totals, o, row)
	case o.Resource == key.Spaces && o.Space == key.Root:
		t.policies.updateSpace(&t.totals, key.Space(o.Name), row)
	default:
		t.replaceObject(o, row)
	}
}
