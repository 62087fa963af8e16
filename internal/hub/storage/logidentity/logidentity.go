// Package logidentity distinguishes the revisions of one log from those of another with the same
// beginning, by the hub markers in it.
//
// It must not write to the log: the hub writes the marker when it starts to serve.
package logidentity

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

// hubMarker is the marker in the log of one start of a hub, or of one reload of its table.
type hubMarker struct {
	name string
	// rev is the revision that created it, 0 while it is not in the log. from is the first revision
	// that belongs to it.
	rev, from int64
	// value is that of the marker, which describes the log before it; nil if it has none.
	value *markerValue
	// seen is the newest revision of the marker that changed something, by the content of the log.
	seen int64
}

// markerValue is the value of a hub marker in the log.
type markerValue struct {
	Started string `json:"started"`
	// Previous is the previous marker, and After the last revision of that marker in this log.
	Previous string `json:"of,omitempty"`
	After    *int64 `json:"after,omitempty"`
	// Open reports that other hubs may have written between After and the marker, so the content of
	// the log in between also counts. The hub later records how far it was valid; see Complete.
	Open bool `json:"open,omitempty"`
}

// Identity distinguishes the revisions of this log from those of another with the same beginning:
// the log before a restore, whose agents know revisions that the copy never had. The zero Identity
// knows no log yet. Only one goroutine may call its observer methods; others may be called
// concurrently.
//
// An agent that knows a marker and a revision has seen this log if the hub of that marker wrote
// this log up to that revision. The content of the log proves this, and never etcd's revision
// number: other clients may use the same etcd, and a restore may skip any number of revisions. Each
// hub therefore first records in its marker where the previous marker ended.
type Identity struct {
	mu  sync.RWMutex
	all []hubMarker // by revision; one that is not in the log yet is last
	// least is the minimum of the first revisions of each marker and all later ones. last is the
	// newest revision that changed something, by the content of the log. Both are needed for each
	// change, and a log may have many markers, since each start adds one.
	least []int64
	last  int64
	// loaded reports whether the initial state has been observed since the last Reset.
	loaded bool
	// base is the revision of that state: deletions up to it left no evidence.
	base int64
	// shown is the newest revision in a present row.
	shown int64
	// foreign reports that the log may not be the one that this process wrote to, until a new
	// marker records where that one ended.
	foreign bool
}

var _ table.Observer = (*Identity)(nil)

// Reset implements table.Observer: it forgets all markers except one that has yet to be written.
func (l *Identity) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(m hubMarker) bool { return m.rev > 0 || l.foreign })
	l.index()
	l.loaded, l.shown = false, 0
}

// Observe implements table.Observer: it records the markers among the changes of a revision, and
// the revision.
func (l *Identity) Observe(rev int64, changes []table.Change) {
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
	case own: // a key with a lease also disappears from a copy
		if moved {
			l.opened(rev, before)
		}
		l.reaches(rev)
	}
	for _, ch := range changes {
		if ch.Cur != nil && !ch.SameEntry() && !key.ClassOf(ch.Row().Key).Leased() {
			l.shown = max(l.shown, ch.Cur.ModRev)
			l.reaches(ch.Cur.ModRev) // in the initial state, each row has the revision that wrote it
		}
	}
	l.loaded = true
}

func markerOf(name string, row *table.Row, seen int64) hubMarker {
	m := hubMarker{name: name, rev: row.CreateRev, from: row.CreateRev, seen: max(seen, row.CreateRev)}
	var value markerValue
	// An unreadable value is ignored.
	if json.Unmarshal(row.Value, &value) == nil && value.After != nil {
		if m.value = &value; !value.Open {
			m.from = *value.After + 1
		}
	}
	return m
}

// opened records that revisions before an open marker belong to the previous marker, up to the
// newest revision that was observed until then.
func (l *Identity) opened(rev, before int64) {
	for i, m := range l.all {
		if i > 0 && m.rev == rev && m.value != nil && m.value.Open {
			l.all[i-1].seen = max(l.all[i-1].seen, before)
			l.index()
			return
		}
	}
}

// order sorts a marker without a revision after all others: 0 wraps around on purpose.
func (m hubMarker) order() uint64 { return uint64(m.rev) - 1 }

// reaches records that the log contains a revision that changed something.
func (l *Identity) reaches(rev int64) {
	if i := l.find(rev); i >= 0 {
		l.all[i].seen = max(l.all[i].seen, rev)
		l.last = max(l.last, rev)
	}
}

// index updates least and last after markers have changed.
func (l *Identity) index() {
	l.least, l.last = make([]int64, len(l.all)), 0
	least := int64(math.MaxInt64)
	for i, m := range slices.Backward(l.all) {
		least = min(least, m.from)
		l.least[i], l.last = least, max(l.last, m.seen)
	}
}

// find returns the index of the newest marker that a revision can belong to; -1 if there is none.
func (l *Identity) find(rev int64) int {
	return newest(len(l.least), rev, func(i int) int64 { return l.least[i] })
}

// newest returns the index of the last of n ascending revisions that is at most rev; -1 if
// there is none. It calls revision O(log n) times.
func newest(n int, rev int64, revision func(int) int64) int {
	return sort.Search(n, func(i int) bool { return revision(i) > rev }) - 1
}

// Begin returns the key's name and the value of the marker to write to the log: a new one named
// random, or the previous one if it is not written yet. From now on new revisions belong to it, so
// a hub whose log has no space for the marker does not use an older one as proof. shared reports
// that other hubs may write in the meantime, so that Complete must follow.
func (l *Identity) Begin(random string, now time.Time, shared bool) (name string, value []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	if n == 0 || l.all[n-1].rev > 0 {
		after, previous := int64(0), ""
		if n > 0 {
			previous, after = l.all[n-1].name, l.end(n-1)
		}
		l.all = append(l.all, hubMarker{name: random, from: after + 1, value: &markerValue{
			Started: now.UTC().Format(time.RFC3339), Previous: previous, After: &after, Open: shared && !l.foreign}})
		l.index()
		l.foreign = false
	}
	m := l.all[len(l.all)-1]
	if value, err = json.Marshal(m.value); err != nil {
		return "", nil, fmt.Errorf("encode the hub marker: %w", err)
	}
	return m.name, value, nil
}

// Complete returns the final value of an open marker that has been written and observed. It records
// which revisions before the marker this process has observed as valid. ok is false for a marker
// that is not open.
func (l *Identity) Complete(name string) (value []byte, ok bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := slices.IndexFunc(l.all, func(m hubMarker) bool { return m.name == name })
	if i < 0 || l.all[i].rev == 0 || l.all[i].value == nil || !l.all[i].value.Open {
		return nil, false, nil
	}
	final, after := markerValue{Started: l.all[i].value.Started}, int64(0)
	if i > 0 {
		final.Previous, after = l.all[i-1].name, l.end(i-1)
	}
	final.After = &after
	if value, err = json.Marshal(final); err != nil {
		return nil, false, fmt.Errorf("encode the hub marker: %w", err)
	}
	return value, true, nil
}

// Distrust records that the log does not continue the one that this process knew. In the next
// loaded state, nothing after its newest marker is proven until Begin.
func (l *Identity) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.foreign = true
}

// end returns the last revision of a marker that this log is known to contain.
func (l *Identity) end(i int) int64 {
	m := l.all[i]
	if i == len(l.all)-1 {
		if l.foreign {
			return m.rev
		}
		return m.seen
	}
	switch next := l.all[i+1].value; {
	case next == nil: // the hub recorded no value: use the content of the log
		return m.seen
	case next.Open && next.Previous != m.name:
		return m.seen
	case next.Open:
		return max(m.seen, *next.After)
	case next.Previous != m.name: // a marker between them is missing
		return m.rev
	default:
		return *next.After
	}
}

// Spans returns the revisions up to now that this log is known to have had under a marker. An agent
// that knows the marker and one of them has seen this log.
func (l *Identity) Spans(marker string, now int64) []wire.Revisions {
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

// Position returns the log position that an agent knows which has the table up to a revision: the marker,
// and the revision of the last change at or below rev. The marker is "" below the first marker.
func (l *Identity) Position(rev int64) (marker string, revision int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	rev = min(rev, max(l.last, l.base))
	if i := l.find(rev); i >= 0 {
		marker = l.all[i].name
	}
	return marker, rev
}

// Continuous reports whether an agent that knows a marker and a revision has seen this hub's log.
// It is true for an agent that knows none.
func (l *Identity) Continuous(marker string, rev int64) bool {
	if marker == "" && rev == 0 {
		return true
	}
	return slices.ContainsFunc(l.Spans(marker, math.MaxInt64), func(s wire.Revisions) bool { return s.Contains(rev) })
}

// Hides reports whether compaction up to a revision would remove the evidence of the log's last
// revision: a deletion without later changes leaves none. marker is one in the log that can be
// written again to keep evidence.
func (l *Identity) Hides(floor int64) (marker string, hides bool) {
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

// Deliver sets the log position in a put, unless put is nil. It omits the marker if it equals
// hello, the marker of the session.
func (l *Identity) Deliver(p *wire.Put, rev int64, hello string) {
	if p == nil {
		return
	}
	marker, rev := l.Position(rev)
	p.Revision = rev
	if marker != hello {
		p.Marker = marker
	}
}
