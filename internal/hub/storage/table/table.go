// Package table holds every value of the log once, in key order, as immutable
// bytes with parsed metadata, together with a window of recent changes from
// which readers resume.
//
// One goroutine (the tail of the log) applies revisions; any number read,
// take snapshots and subscribe. A reader never sees half a revision. The
// table never writes to the log, never decodes an object beyond its metadata,
// and does not know who reads it: what a row belongs to beyond its key is
// computed by a Deriver and kept with the row as its Membership.
package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

var (
	// ErrExpired says that the window no longer reaches back to a revision.
	ErrExpired = errors.New("revision is older than the event window")
	// ErrFuture says that the table has not reached a revision.
	ErrFuture = errors.New("revision is newer than the table")
)

// Update is the new state of one key at a revision. A revision has at most one for each
// key. A nil Value says that the key is gone. The table may keep the Value, and copies the Key.
type Update struct {
	Key       string
	Value     []byte
	CreateRev int64
	ModRev    int64
}

// Row is an entry and what the Deriver says of it at some revision. It is immutable.
type Row struct {
	*Entry
	// In is nil for a row that belongs to nothing.
	In Membership
	// On is nil for a row that is on no shelf.
	On Showing
}

// Membership names the locations to which a row belongs by policy: what they are told of, be
// it that they are to have it or not. It is immutable, and a Deriver returns the same value
// for the same membership, so that values can be compared.
type Membership interface {
	// Told are the locations in order.
	Told() []key.Location
	// Tells says whether the row belongs to a location.
	Tells(l key.Location) bool
	// SameAt says whether other, which is never nil, says the same of a location.
	SameAt(l key.Location, other Membership) bool
}

// Change is what one revision did to one row: Prev is nil if it was created, Cur if it
// was deleted. If only the membership changed, or the shelves, both share the Entry.
type Change struct {
	Prev, Cur *Row
	// cause is nil for nearly all of the many that windows keep.
	cause *cause
}

// cause is why a row leaves members, where that does not follow from it.
type cause struct {
	ended []key.PlacementRef
	named bool
}

// Ended are the policies that were deleted in this revision and by which the row may
// have belonged to a member, as the Deriver names them.
func (c Change) Ended() []key.PlacementRef {
	if c.cause == nil {
		return nil
	}
	return c.cause.ended
}

// Named says that what contains the row is being deleted: by that somebody has said by name
// that the row is to go, from whichever member.
func (c Change) Named() bool { return c.cause != nil && c.cause.named }

// Row is the current row, or the last one if it was deleted.
func (c Change) Row() *Row {
	if c.Cur != nil {
		return c.Cur
	}
	return c.Prev
}

// SameEntry says that only the membership changed, or the shelves.
func (c Change) SameEntry() bool {
	return c.Prev != nil && c.Cur != nil && c.Prev.Entry == c.Cur.Entry
}

// sameAt says that all is as it was for a location to which the row belongs: a change
// of membership that concerns others.
func (c Change) sameAt(l key.Location) bool {
	return c.SameEntry() && c.Prev.In != nil && c.Cur.In != nil && c.Cur.In.SameAt(l, c.Prev.In)
}

// Step has the changes of one revision that a receiver subscribed to.
type Step struct {
	Rev     int64
	Changes []Change
}

// Reader reads one consistent state.
type Reader interface {
	// Get returns the row of a key, or nil.
	Get(key string) *Row
	// Ascend calls fn for the rows below a prefix in key order until it returns false.
	Ascend(prefix string, fn func(*Row) bool)
}

// Assignment says what the row of a key belongs to from now on.
type Assignment struct {
	Key string
	In  Membership
	// Ended becomes that of the Change. It is not part of the state, and is nil if the
	// state before is not known.
	Ended []key.PlacementRef
	// Named becomes that of the Change. It is not part of the state either.
	Named bool
}

func (a Assignment) cause() *cause {
	if len(a.Ended) == 0 && !a.Named {
		return nil
	}
	return &cause{a.Ended, a.Named}
}

// Deriver computes memberships. It is called by the one goroutine that applies
// revisions and must be a function of the state it has been shown.
type Deriver interface {
	// Reset forgets everything; the next Derive shows a whole state.
	Reset()
	// Derive is shown the changes of one revision (Cur.In not yet set) and the
	// state after it. It returns the membership of every changed row that has
	// one, and of every other row whose membership is now different.
	Derive(state Reader, changes []Change) []Assignment
}

// Shower computes which rows are on which shelves, as a Deriver does memberships.
type Shower interface {
	// Reset forgets everything; the next Show shows a whole state.
	Reset()
	// Show is shown the changes of one revision (Cur.On not yet set) and the state after it.
	// It returns on which shelves every row is that was written and is on any, and every other
	// row that is now on others: a change of membership alone leaves a row where it is.
	Show(state Reader, changes []Change) []Shown
}

// Observer is shown every change in revision order, of all parts of the log, by
// the goroutine that applies them and before readers see the revision. What it
// computes is thereby exact at each revision; it must be quick, must not block
// and must not call the table.
type Observer interface {
	// Reset forgets everything; the next Observe shows a whole state.
	Reset()
	// Observe is shown the changes of one revision, with their memberships.
	Observe(rev int64, changes []Change)
}

// Config sizes a table.
type Config struct {
	// Deriver computes memberships; nil for none.
	Deriver Deriver
	// Shower computes what is on shelves; nil for none.
	Shower Shower
	// Observer is shown every change; nil for none.
	Observer Observer
	// WindowSteps and WindowBytes bound each window of recent changes.
	WindowSteps int
	WindowBytes int
}

// Table is the readers' side of the log's state. It is safe for concurrent use.
type Table struct {
	config Config
	rev    atomic.Int64

	mu      sync.RWMutex
	rows    btree.Map[string, *Row]
	members map[key.Location]*btree.Set[string]
	shelves btree.BTreeG[*shelf]
	windows [windowCount]window
	subs    map[Topic]map[*Subscription]struct{}
	offered []*Subscription // to be woken at the end of the revision being applied
	snap    *Snapshot
	// reached is closed and replaced when the revision advances.
	reached chan struct{}
}

// Writer is a Table with the methods that change it, for the one goroutine that follows
// the log.
type Writer struct{ *Table }

// New makes an empty table at revision 0.
func New(config Config) *Writer {
	t := &Table{config: config, reached: make(chan struct{})}
	t.clear(0)
	t.subs = map[Topic]map[*Subscription]struct{}{}
	return &Writer{t}
}

func (t *Table) clear(rev int64) {
	t.rows = btree.Map[string, *Row]{}
	t.members = map[key.Location]*btree.Set[string]{}
	t.shelves = *btree.NewBTreeGOptions(compareShelves, btree.Options{NoLocks: true})
	t.snap = nil
	for i := range t.windows {
		t.windows[i] = window{floor: rev, maxSteps: t.config.WindowSteps, maxBytes: t.config.WindowBytes}
	}
}

// Reset replaces the whole state by the one at a revision. Subscriptions from
// before end with ErrExpired.
func (t *Writer) Reset(rev int64, state []Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear(rev)
	for _, subs := range t.subs {
		for s := range subs {
			s.expire()
		}
	}
	t.subs = map[Topic]map[*Subscription]struct{}{}
	if t.config.Deriver != nil {
		t.config.Deriver.Reset()
	}
	if t.config.Shower != nil {
		t.config.Shower.Reset()
	}
	changes := t.derive(t.write(state))
	if t.config.Observer != nil {
		t.config.Observer.Reset()
		t.config.Observer.Observe(rev, changes)
	}
	t.advance(rev)
}

// Apply applies all updates of one revision, which must be above the last.
func (t *Writer) Apply(rev int64, updates []Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.rev.Load(); rev <= last {
		return fmt.Errorf("apply revision %d after %d: out of order", rev, last)
	}
	changes := t.derive(t.write(updates))
	if t.config.Observer != nil {
		t.config.Observer.Observe(rev, changes)
	}
	t.publish(rev, changes)
	t.advance(rev)
	t.wake()
	return nil
}

// Progress notes that nothing changed up to a revision.
func (t *Writer) Progress(rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rev > t.rev.Load() {
		t.advance(rev)
	}
}

func (t *Table) write(updates []Update) []Change {
	changes := make([]Change, 0, len(updates))
	for _, u := range updates {
		prev, _ := t.rows.Get(u.Key)
		var cur *Row
		if u.Value == nil {
			t.rows.Delete(u.Key)
		} else {
			cur = newRow(u)
			t.rows.Set(cur.Key, cur)
		}
		if prev != nil || cur != nil {
			changes = append(changes, Change{Prev: prev, Cur: cur})
		}
	}
	slices.SortFunc(changes, compareKeys)
	return changes
}

func compareKeys(a, b Change) int { return strings.Compare(a.Row().Key, b.Row().Key) }

// derive asks the Deriver and returns the changes with memberships and shelves set: those of
// values, then those of membership, then those of shelves alone.
func (t *Table) derive(changes []Change) []Change {
	values := changes
	if t.config.Deriver != nil {
		var moved []Change // not appended to values yet: the loop still writes to those
		for _, a := range t.config.Deriver.Derive(locked{t}, values) {
			row, ok := t.rows.Get(a.Key)
			if !ok {
				continue
			}
			if c := find(values, a.Key); c != nil {
				c.Cur.In, c.cause = a.In, a.cause()
				continue
			}
			if row.In == a.In {
				continue
			}
			cur := &Row{Entry: row.Entry, In: a.In, On: row.On}
			t.rows.Set(a.Key, cur)
			moved = append(moved, Change{Prev: row, Cur: cur, cause: a.cause()})
		}
		slices.SortFunc(moved, compareKeys)
		changes = append(values, moved...)
	}
	changes = t.show(changes, len(values))
	for _, c := range changes {
		t.index(c)
		t.place(c)
	}
	return changes
}

// index keeps the member index equal to the rows' memberships.
func (t *Table) index(c Change) {
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Told() {
			if c.Cur != nil && c.Cur.In != nil && (c.Cur.In == c.Prev.In || c.Cur.In.Tells(m)) {
				continue
			}
			if set := t.members[m]; set != nil {
				if set.Delete(c.Prev.Key); set.Len() == 0 {
					delete(t.members, m)
				}
			}
		}
	}
	if c.Cur != nil && c.Cur.In != nil && (c.Prev == nil || c.Prev.In != c.Cur.In) {
		for _, m := range c.Cur.In.Told() {
			if c.Prev != nil && c.Prev.In != nil && c.Prev.In.Tells(m) {
				continue
			}
			set := t.members[m]
			if set == nil {
				set = &btree.Set[string]{}
				t.members[m] = set
			}
			set.Insert(c.Cur.Key)
		}
	}
}

func (t *Table) advance(rev int64) {
	t.rev.Store(rev)
	t.snap = nil
	close(t.reached)
	t.reached = make(chan struct{})
}

// Rev is the revision that the table has reached.
func (t *Table) Rev() int64 { return t.rev.Load() }

// Size is the number of rows.
func (t *Table) Size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rows.Len()
}

// WaitFor returns once the table has reached a revision, or with the context's error.
func (t *Table) WaitFor(ctx context.Context, rev int64) error {
	for t.rev.Load() < rev {
		t.mu.RLock()
		reached, now := t.reached, t.rev.Load()
		t.mu.RUnlock()
		if now >= rev {
			break
		}
		select {
		case <-reached:
		case <-ctx.Done():
			return fmt.Errorf("wait for revision %d, at %d: %w", rev, t.rev.Load(), ctx.Err())
		}
	}
	return nil
}

// Floor is the oldest revision from which topics can still be resumed together.
func (t *Table) Floor(topics ...Topic) int64 {
	var of windowSet
	for _, topic := range topics {
		of[topic.window()] = true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.floor(of)
}

// Oldest is the oldest revision from which anything can still be resumed.
func (t *Table) Oldest() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	oldest := t.windows[0].floor
	for i := range t.windows {
		oldest = min(oldest, t.windows[i].floor)
	}
	return oldest
}

// locked reads the rows while the table's lock is held.
type locked struct{ t *Table }

func (l locked) Get(k string) *Row {
	row, _ := l.t.rows.Get(k)
	return row
}

func (l locked) Ascend(prefix string, fn func(*Row) bool) { ascend(&l.t.rows, prefix, fn) }

func ascend(rows *btree.Map[string, *Row], prefix string, fn func(*Row) bool) {
	rows.Ascend(prefix, func(k string, row *Row) bool {
		return strings.HasPrefix(k, prefix) && fn(row)
	})
}
