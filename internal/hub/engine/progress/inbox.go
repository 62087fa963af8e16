package progress

import (
	"slices"
	"sync"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// inbox keeps the newest row of every key that changed, so that its size is bounded by
// the number of keys. It is filled while the table is locked, so filling it does nothing
// else.
type inbox struct {
	mu   sync.Mutex
	news news
}

// news are the changes between two counts.
type news struct {
	// reset says that everything known before is void.
	reset bool
	rev   int64
	// rows has the current row by key, nil if it is gone.
	rows map[string]*table.Row
}

// Reset forgets everything; the next Observe shows a whole state.
func (t *Tracker) Reset() {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	t.inbox.news = news{reset: true}
}

// Observe notes the changes of one revision.
func (t *Tracker) Observe(rev int64, changes []table.Change) {
	t.inbox.mu.Lock()
	defer t.inbox.mu.Unlock()
	in := &t.inbox.news
	in.rev = rev
	if in.rows == nil {
		in.rows = make(map[string]*table.Row, len(changes))
	}
	for _, c := range changes {
		k := c.Row().Key
		switch key.ClassOf(k) {
		case key.Objects, key.Reports:
			in.rows[k] = c.Cur
		}
	}
}

func (in *inbox) take() news {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.news
	in.news = news{rev: n.rev}
	return n
}

// count counts what was observed.
func (t *Tracker) count(n news) {
	if n.reset {
		t.clear()
	}
	t.rev = n.rev
	defer t.config.Work.End()
	for k, row := range n.rows {
		t.config.Work.Begin(k)
		if key.ClassOf(k) == key.Reports {
			if r, err := key.ParseReport(k); err == nil && r.Origin == key.Placed {
				t.countReport(r, row)
			}
			continue
		}
		o, err := key.ParseObject(k)
		if err != nil {
			continue
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
