package progress

import (
	"context"
	"maps"
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
	// Reset until the next Observe.
	resets      int
	awaitsState bool
	rev         int64
	// spaces has the current row by key, nil for a deleted one.
	spaces map[key.Space]map[string]*table.Row
}

// maxApplied is the weight of the changes that are applied at a time, while the Tracker is locked.
const maxApplied = 1024

// Reset forgets everything; the next Observe shows a whole state.
func (t *Tracker) Reset() {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.resets, t.inbox.awaitsState, t.inbox.spaces = t.inbox.resets+1, true, map[key.Space]map[string]*table.Row{}
}

// Observe records the changes of one revision.
func (t *Tracker) Observe(rev int64, changes []table.Change) {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.rev, t.inbox.awaitsState = rev, false
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
		rows = map[string]*table.Row{}
		in.spaces[s] = rows
	}
	rows[k] = row
}

// take moves rows of a space into some, which is empty, until their weight exceeds maxApplied. resets is the number
// of Resets, and more reports that there are more rows.
func (in *inbox) take(s key.Space, some map[string]*table.Row, weigh func(string, *table.Row) int) (resets int, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rows, weight := in.spaces[s], 0
	for k, row := range rows {
		if weight > maxApplied {
			return in.resets, true
		}
		weight += weigh(k, row)
		some[k] = row
		delete(rows, k)
	}
	delete(in.spaces, s)
	return in.resets, false
}

// waiting returns the spaces with observed changes, and the last revision. resets is the number of
// Resets; it is negative until the state is observed that follows the last one.
func (in *inbox) waiting() (spaces []key.Space, rev int64, resets int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if resets = in.resets; in.awaitsState {
		resets = -1
	}
	return slices.Sorted(maps.Keys(in.spaces)), in.rev, resets
}

// apply applies the observed changes of a space, or some of them if the context ends. It evaluates nothing: the
// pairs whose state may have changed are due from then on. Changes are taken and applied under one lock, so that no
// older one is applied after a newer.
func (t *Tracker) apply(ctx context.Context, s key.Space) error {
	some := map[string]*table.Row{}
	for {
		more := t.applySome(s, some)
		if !more {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(some)
	}
}

// applySome applies observed changes of a space, as many as one hold of the lock may take.
func (t *Tracker) applySome(s key.Space, some map[string]*table.Row) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	resets, more := t.inbox.take(s, some, func(k string, row *table.Row) int { return weight(t.objects, k, row) })
	if resets != t.resets {
		t.resets = resets
		t.clear()
	}
	for k, row := range some {
		t.applyRow(k, row)
	}
	return more
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
