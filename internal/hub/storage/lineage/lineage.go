// Package lineage tells the revisions of one log from those of another that shares its
// beginning, by the hub markers in it.
//
// It must never write to the log: the hub writes the marker when it begins to serve.
package lineage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// hubMarker is the trace that one start of a hub, or a reload of its table, leaves in
// the log.
type hubMarker struct {
	name string
	// rev is the revision that created it, 0 while it is not in the log. from is the
	// first revision under its name.
	rev, from int64
	// says is what its hub found in the log before it; nil if the hub did not say.
	says *markerValue
	// seen is the newest revision under it of which the log itself shows that it
	// changed something.
	seen int64
}

// markerValue is the value of a hub marker in the log.
type markerValue struct {
	Started string `json:"started"`
	// Of is the marker before this one, and After the last revision under that one
	// that this log holds.
	Of    string `json:"of,omitempty"`
	After *int64 `json:"after,omitempty"`
	// Open says that other hubs may have written between After and the marker: what the log
	// shows of that counts, too. The hub says how far that was right after, see Settle.
	Open bool `json:"open,omitempty"`
}

// Lineage tells the revisions of this log from those of another that shares its
// beginning: the log before a restore, whose agents remember revisions that the
// copy never had. The zero Lineage knows of no log yet. One goroutine tells it of
// changes; any may ask.
//
// An agent that remembers a marker and a revision has seen this log if the hub of
// that marker wrote this log up to the revision. How far it did is shown by what the
// log holds, never by the revision number that etcd has reached: others may use the
// same etcd, and a restore may skip any number of revisions. So each hub notes in its
// marker, before it writes anything else, where it found the one before to end.
type Lineage struct {
	mu  sync.RWMutex
	all []hubMarker // by revision; one that is not in the log yet is last
	// least is the least of the first revisions of each marker and those behind it, and
	// last the newest revision of which the log shows that it changed something: each
	// start leaves a marker, so a log may have many, and both are asked of every change.
	least []int64
	last  int64
	// loaded says that the initial state has been observed since the last Reset.
	loaded bool
	// base is the revision of that state: what was deleted up to it left no trace.
	base int64
	// shown is the newest revision that a row still shows.
	shown int64
	// foreign says that the log may not be the one that this process wrote to, until
	// a new marker says where that one ended.
	foreign bool
}

var _ table.Observer = (*Lineage)(nil)

// Reset implements table.Observer: it forgets all markers but one that has yet to be
// written.
func (l *Lineage) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(m hubMarker) bool { return m.rev > 0 || l.foreign })
	l.index()
	l.loaded, l.shown = false, 0
}

// Observe implements table.Observer: it notes the markers among the changes of a
// revision, and that the log reaches up to it.
func (l *Lineage) Observe(rev int64, changes []table.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved, own, before := false, false, l.last
	for _, ch := range changes {
		own = own || !key.ClassOf(ch.Row().Key).Leased()
		name, ok := key.MarkerOf(ch.Row().Key)
		if !ok {
			continue
		}
		moved = true
		seen := int64(0)
		l.all = slices.DeleteFunc(l.all, func(m hubMarker) bool {
			if m.name == name {
				seen = m.seen
			}
			return m.name == name
		})
		if ch.Cur != nil {
			l.all = append(l.all, markerOf(name, ch.Cur, seen))
		}
	}
	if moved { // a log may have thousands
		slices.SortStableFunc(l.all, func(a, b hubMarker) int { return cmp.Compare(a.order(), b.order()) })
		l.index()
	}
	switch {
	case !l.loaded:
		l.base = rev
	case own: // what goes with a lease goes by itself, also in a copy
		if moved {
			l.opened(rev, before)
		}
		l.reaches(rev)
	}
	for _, ch := range changes {
		if ch.Cur != nil && !ch.SameEntry() && !key.ClassOf(ch.Row().Key).Leased() {
			l.shown = max(l.shown, ch.Cur.ModRev)
			l.reaches(ch.Cur.ModRev) // in the initial state each row shows when it was written
		}
	}
	l.loaded = true
}

func markerOf(name string, row *table.Row, seen int64) hubMarker {
	m := hubMarker{name: name, rev: row.CreateRev, from: row.CreateRev, seen: max(seen, row.CreateRev)}
	var says markerValue
	// What can't be read says nothing.
	if json.Unmarshal(row.Value, &says) == nil && says.After != nil {
		if m.says = &says; !says.Open {
			m.from = *says.After + 1
		}
	}
	return m
}

// opened notes that what came before an open marker, which a revision has created, is under
// the marker before: up to the newest revision that the log was seen to have until then.
func (l *Lineage) opened(rev, before int64) {
	for i, m := range l.all {
		if i > 0 && m.rev == rev && m.says != nil && m.says.Open {
			l.all[i-1].seen = max(l.all[i-1].seen, before)
			l.index()
			return
		}
	}
}

// order puts a marker without a revision after all others: 0 wraps around on purpose.
func (m hubMarker) order() uint64 { return uint64(m.rev) - 1 }

// reaches notes that the log holds a revision that changed something.
func (l *Lineage) reaches(rev int64) {
	if i := l.find(rev); i >= 0 {
		l.all[i].seen = max(l.all[i].seen, rev)
		l.last = max(l.last, rev)
	}
}

// index keeps least and last when markers have changed.
func (l *Lineage) index() {
	l.least, l.last = make([]int64, len(l.all)), 0
	least := int64(math.MaxInt64)
	for i, m := range slices.Backward(l.all) {
		least = min(least, m.from)
		l.least[i], l.last = least, max(l.last, m.seen)
	}
}

// find is the index of the newest marker that a revision can be under; -1 if there is
// none.
func (l *Lineage) find(rev int64) int {
	return newest(len(l.least), rev, func(i int) int64 { return l.least[i] })
}

// newest returns the index of the last of n ascending revisions that is at most rev; -1 if
// there is none. It calls at O(log n) times.
func newest(n int, rev int64, at func(int) int64) int {
	return sort.Search(n, func(i int) bool { return at(i) > rev }) - 1
}

// Begin returns the key's name and the value of the marker to write to the log: one
// named random, or the one before if that is not written yet. From now on new revisions
// are under its name, so that a hub whose log has no room for the marker yet proves
// nothing by an older one. shared says that other hubs may write meanwhile, so that Settle
// is to follow.
func (l *Lineage) Begin(random string, now time.Time, shared bool) (name string, value []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	if n == 0 || l.all[n-1].rev > 0 {
		after, of := int64(0), ""
		if n > 0 {
			of, after = l.all[n-1].name, l.end(n-1)
		}
		l.all = append(l.all, hubMarker{name: random, from: after + 1, says: &markerValue{
			Started: now.UTC().Format(time.RFC3339), Of: of, After: &after, Open: shared && !l.foreign}})
		l.index()
		l.foreign = false
	}
	m := l.all[len(l.all)-1]
	if value, err = json.Marshal(m.says); err != nil {
		return "", nil, fmt.Errorf("encode the hub marker: %w", err)
	}
	return m.name, value, nil
}

// Settle returns the value that an open marker is to have now that it is in the log and
// observed: by what this process has seen to be right before it. ok is false for a marker
// that is not open.
func (l *Lineage) Settle(name string) (value []byte, ok bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := slices.IndexFunc(l.all, func(m hubMarker) bool { return m.name == name })
	if i < 0 || l.all[i].rev == 0 || l.all[i].says == nil || !l.all[i].says.Open {
		return nil, false, nil
	}
	says, after := markerValue{Started: l.all[i].says.Started}, int64(0)
	if i > 0 {
		says.Of, after = l.all[i-1].name, l.end(i-1)
	}
	says.After = &after
	if value, err = json.Marshal(says); err != nil {
		return nil, false, fmt.Errorf("encode the hub marker: %w", err)
	}
	return value, true, nil
}

// Distrust says that the log does not continue what this process knew: of the state
// that is loaded next, nothing after its newest marker is proven until Begin.
func (l *Lineage) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.foreign = true
}

// end is the last revision under a marker that this log is known to hold.
func (l *Lineage) end(i int) int64 {
	m := l.all[i]
	if i == len(l.all)-1 {
		if l.foreign {
			return m.rev
		}
		return m.seen
	}
	switch next := l.all[i+1].says; {
	case next == nil: // of a hub that did not say: what the log shows
		return m.seen
	case next.Open && next.Of != m.name:
		return m.seen
	case next.Open:
		return max(m.seen, *next.After)
	case next.Of != m.name: // a marker between them is gone
		return m.rev
	default:
		return *next.After
	}
}

// Spans are the revisions up to now that this log is known to have had under a marker:
// an agent that remembers the marker and one of them has seen this log.
func (l *Lineage) Spans(marker string, now int64) []wire.Revisions {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, m := range l.all {
		if m.name != marker {
			continue
		}
		if last := min(l.end(i), now); m.from <= last {
			return []wire.Revisions{{First: m.from, Last: last}}
		}
	}
	return nil
}

// At is what an agent that has seen the table up to a revision remembers: the marker,
// and the revision or, if nothing has changed since, that of the last change. Below the
// first marker the marker is "".
func (l *Lineage) At(rev int64) (marker string, revision int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	rev = min(rev, max(l.last, l.base))
	if i := l.find(rev); i >= 0 {
		marker = l.all[i].name
	}
	return marker, rev
}

// Continuous says whether an agent that remembers a marker and a revision has
// seen this hub's log. An agent that remembers nothing has nothing to lose.
func (l *Lineage) Continuous(marker string, rev int64) bool {
	if marker == "" && rev == 0 {
		return true
	}
	return slices.ContainsFunc(l.Spans(marker, math.MaxInt64), func(s wire.Revisions) bool { return s.Has(rev) })
}

// Hides says whether compaction up to a revision would hide how far the log reached: a
// deletion that nothing followed leaves no trace. marker is one in the log that can be
// written again to keep a trace.
func (l *Lineage) Hides(floor int64) (marker string, hides bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, m := range l.all {
		if m.rev > 0 {
			marker = m.name
		}
	}
	last := l.last
	return marker, marker != "" && floor >= last && last > l.shown
}

// Deliver sets in a put, unless it is nil, the place in the log at which it is
// delivered. The marker is left out if it equals hello, the session's own.
func (l *Lineage) Deliver(p *wire.Put, rev int64, hello string) {
	if p == nil {
		return
	}
	marker, rev := l.At(rev)
	p.Revision = rev
	if marker != hello {
		p.Marker = marker
	}
}
