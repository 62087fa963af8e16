package progress

import (
	"maps"
	"slices"
	"sync"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// inbox keeps the newest row of every key that changed, by space, so that its size is bounded by
// the number of keys. It is filled while the table is locked, so filling it does nothing else.
type inbox struct {
	mu sync.Mutex
	// load is the number of Resets, each of which makes all earlier rows invalid. isVoid is true if nothing
	// was observed after the last one.
	load   int
	isVoid bool
	rev    int64
	// spaces has the current row by key, nil if it is gone.
	spaces map[key.Space]map[string]*table.Row
}

// maxApplied is how many changes are applied at a time, while the Tracker is locked.
const maxApplied = 256

// Reset forgets everything; the next Observe shows a whole state.
func (t *Tracker) Reset() {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.load, t.inbox.isVoid, t.inbox.spaces = t.inbox.load+1, true, map[key.Space]map[string]*table.Row{}
}

// Observe notes the changes of one revision.
func (t *Tracker) Observe(rev int64, changes []table.Change) {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.rev, t.inbox.isVoid = rev, false
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

// take moves up to maxApplied rows of a space into some, which is empty; load is the number of Resets, and
// more reports that there are more rows.
func (in *inbox) take(s key.Space, some map[string]*table.Row) (load int, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rows := in.spaces[s]
	for k, row := range rows {
		if len(some) == maxApplied {
			return in.load, true
		}
		some[k] = row
		delete(rows, k)
	}
	delete(in.spaces, s)
	return in.load, false
}

// waiting returns the spaces of which something has changed, and the last revision. whole is the number of
// Resets; it is negative until the state is observed that follows the last one.
func (in *inbox) waiting() (spaces []key.Space, rev int64, whole int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if whole = in.load; in.isVoid {
		whole = -1
	}
	return slices.Sorted(maps.Keys(in.spaces)), in.rev, whole
}

// apply has the Tracker know the changes of a space. It evaluates nothing: the pairs whose state may be
// another are due from then on. Changes are taken and applied under one lock, so that no older one is applied
// after a newer.
func (t *Tracker) apply(s key.Space) {
	some := map[string]*table.Row{}
	for more := true; more; clear(some) {
		t.mu.Lock()
		var load int
		load, more = t.inbox.take(s, some)
		if load != t.load {
			t.load = load
			t.clear()
		}
		for k, row := range some {
			t.applyRow(k, row)
		}
		t.mu.Unlock()
	}
}

func (t *Tracker) applyRow(k string, row *table.Row) {
	if key.ClassOf(k) == key.Reports {
		if r, err := key.ParseReport(k); err == nil && r.Origin == key.Placed {
			t.countReport(r, row)
		}
		return
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return
	}
	switch {
	case o.Resource == key.Placements:
		t.notePlacement(o, row)
	case o.Resource == key.Locations && o.Space == key.Root:
		t.noteLocation(o, row)
	case o.Resource == key.Spaces && o.Space == key.Root:
		t.noteSpace(key.Space(o.Name), row)
	default:
		t.countObject(o, row)
	}
}

// notePlacement makes a Placement dirty whoever changed its row, so that a status that
// somebody else wrote does not stay.
func (t *Tracker) notePlacement(o key.Object, row *table.Row) {
	p := key.Placement{Space: o.Space, Name: o.Name}
	t.dirtyPlacement[p] = struct{}{}
	if row == nil {
		delete(t.known, p)
	} else {
		t.known[p] = struct{}{}
	}
}

func (t *Tracker) noteLocation(o key.Object, row *table.Row) {
	l := key.Location(o.Name)
	t.dirtyLocation[l] = struct{}{}
	t.noteConnection(l, objectstate.IsRowStale(row))
	was, before := t.there[l]
	now, after := selectable{}, row != nil && !row.Meta.Deleting
	if after {
		now = selectableOf(row)
		t.there[l] = now
	} else {
		delete(t.there, l)
	}
	if before == after && was.equal(now) {
		return
	}
	if before {
		t.moved = append(t.moved, placement.Site{Name: l, Labels: was.labels})
	}
	if after {
		t.moved = append(t.moved, placement.Site{Name: l, Labels: now.labels})
	}
}

// selectable is what of a Location decides who selects it, and whether more objects come to it.
type selectable struct {
	labels             table.Labels
	uid, admit, taints string
}

func selectableOf(row *table.Row) selectable {
	says := gjson.GetManyBytes(row.Value, "spec.admit", "spec.taints", "status.taints")
	return selectable{row.Meta.Labels, row.Meta.UID, says[0].Raw, says[1].Raw + says[2].Raw}
}

func (s selectable) equal(o selectable) bool {
	return s.uid == o.uid && s.admit == o.admit && s.taints == o.taints && slices.Equal(s.labels, o.labels)
}

// reachable is what of a Space decides who reaches it, and who admits it.
type reachable struct {
	labels   table.Labels
	there    bool
	deleting bool
}

// noteSpace makes the Placements dirty that may be about a space which has changed.
func (t *Tracker) noteSpace(s key.Space, row *table.Row) {
	was, now := t.spaces[s], reachable{}
	if row == nil {
		delete(t.spaces, s)
	} else {
		now = reachable{row.Meta.Labels, true, row.Meta.Deleting}
		t.spaces[s] = now
	}
	if was.there == now.there && was.deleting == now.deleting && slices.Equal(was.labels, now.labels) {
		return
	}
	for p := range t.known {
		if p.Space == s || p.Space == key.Root {
			t.dirtyPlacement[p] = struct{}{}
		}
	}
}

// noteConnection updates the counts of stale pairs.
func (t *Tracker) noteConnection(location key.Location, stale bool) {
	if _, was := t.stale[location]; was == stale {
		return
	}
	if stale {
		t.stale[location] = struct{}{}
	} else {
		delete(t.stale, location)
	}
	for p, sum := range t.placements {
		n := sum.at[location]
		if n == 0 {
			continue
		}
		if !stale {
			n = -n
		}
		sum.counts.Stale += n
		t.dirtyPlacement[p] = struct{}{}
	}
}
