// Package table holds every value of the log once, in key order, as immutable
// bytes with parsed metadata, together with a window of recent changes from
// which readers resume.
//
// One goroutine (the tail of the log) applies revisions; any number of goroutines read,
// take snapshots and subscribe. A reader never sees half a revision. The
// table never writes to the log, never decodes an object beyond its metadata,
// and does not depend on its readers: a Deriver computes to which locations a row belongs, and the
// table stores the result with the row as its Membership.
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
	// ErrExpired is returned when a window no longer has all steps after a revision.
	ErrExpired = errors.New("revision is older than the event window")
	// ErrFuture is returned when the table has not reached a revision.
	ErrFuture = errors.New("revision is newer than the table")
)

// Update is the new state of one key at a revision. A revision has at most one update for each key. A
// nil Value means that the key was deleted. The table may keep the Value, and copies the Key.
type Update struct {
	Key       string
	Value     []byte
	CreateRev int64
	ModRev    int64
}

// Row is an entry with its membership and exposure at a revision. It is immutable.
type Row struct {
	*Entry
	// In is the membership; nil if the row belongs to no location.
	In Membership
	// Exposure is nil if no export view shows the row.
	Exposure Exposure
}

// Membership names the locations to which a row belongs by policy: those that receive its changes,
// including locations that only receive that they must not have the object. It is immutable. A Deriver
// returns the same value for the same membership, so that values can be compared.
type Membership interface {
	// Locations returns the locations in order.
	Locations() []key.Location
	// Includes reports whether the row belongs to a location.
	Includes(l key.Location) bool
	// SameAt reports whether other, which is never nil, is the same with regard to a location.
	SameAt(l key.Location, other Membership) bool
}

// Change is the change of one row by one revision. Prev is nil if the row was created, and Cur if it
// was deleted. If only the membership or the exposure changed, both share the Entry.
type Change struct {
	Prev, Cur *Row
	// cause is a pointer to save memory: it is nil for nearly all of the many changes in windows.
	cause *cause
}

// cause has reasons why a row leaves locations that the row itself does not have.
type cause struct {
	ended []key.PlacementRef
	named bool
}

// Ended returns the policies that this revision deleted and by which the row may have belonged to a
// location, as the Deriver reports them.
func (c Change) Ended() []key.PlacementRef {
	if c.cause == nil {
		return nil
	}
	return c.cause.ended
}

// Named reports whether the container of the row, such as its namespace, is being deleted. A user that
// deletes the container requests the removal of the row from all locations.
func (c Change) Named() bool { return c.cause != nil && c.cause.named }

// Row returns the current row, or the previous one if the row was deleted.
func (c Change) Row() *Row {
	if c.Cur != nil {
		return c.Cur
	}
	return c.Prev
}

// SameEntry reports whether only the membership or the exposure changed.
func (c Change) SameEntry() bool {
	return c.Prev != nil && c.Cur != nil && c.Prev.Entry == c.Cur.Entry
}

// sameAt reports whether nothing has changed with regard to a location to which the row belongs: only
// the membership changed, and only for other locations.
func (c Change) sameAt(l key.Location) bool {
	return c.SameEntry() && c.Prev.In != nil && c.Cur.In != nil && c.Cur.In.SameAt(l, c.Prev.In)
}

// Step has the changes of one revision that match the topics of a subscription.
type Step struct {
	Rev     int64
	Changes []Change
}

// Getter reads single rows of one consistent state.
type Getter interface {
	// Get returns the row of a key, or nil.
	Get(key string) *Row
}

// Reader reads one consistent state.
type Reader interface {
	Getter
	// Ascend calls fn for the rows below a prefix in key order until it returns false.
	Ascend(prefix string, fn func(*Row) bool)
}

// Assignment is the new membership of the row of a key.
type Assignment struct {
	Key string
	In  Membership
	// Ended is returned by Change.Ended. It is not part of the state, and nil if the previous state is
	// unknown.
	Ended []key.PlacementRef
	// Named is returned by Change.Named. It is not part of the state either.
	Named bool
}

func (a Assignment) cause() *cause {
	if len(a.Ended) == 0 && !a.Named {
		return nil
	}
	return &cause{a.Ended, a.Named}
}

// Deriver computes memberships. Only the goroutine that applies revisions calls it. Its results must
// depend only on the states and changes that it has received since the last Reset.
type Deriver interface {
	// Reset drops all state; the next Derive receives a whole state as changes.
	Reset()
	// Derive receives the changes of one revision (Cur.In not yet set) and the state after it. It
	// returns the membership of every changed row that has one, and of every other row whose
	// membership has changed.
	Derive(state Reader, changes []Change) []Assignment
}

// Exposer computes which export views show which rows. It is called like a Deriver, after it.
type Exposer interface {
	// Reset drops all state; the next Expose receives a whole state as changes.
	Reset()
	// Expose receives the changes of one revision (Cur.Exposure not yet set) and the state after it.
	// It returns the exposure of every written row that has one, and of every other row whose
	// exposure has changed. A change of membership alone does not reset the exposure of a row.
	Expose(state Reader, changes []Change) []Exposed
}

// Observer receives all changes in the order of revisions, from the goroutine that applies them and
// before readers see the revision. So its results are exact at each revision. It must be quick, must
// not block and must not call the table.
type Observer interface {
	// Reset drops all state; the next Observe receives a whole state as changes.
	Reset()
	// Observe receives the changes of one revision, with their memberships and exposures.
	Observe(rev int64, changes []Change)
}

// Preparer is a Deriver, Exposer or Observer that does work on values before the table is locked, such as
// decoding them: users choose how large a value is, and all readers wait for the lock.
type Preparer interface {
	// Prepare receives the changes of one revision, without memberships and exposures, and the state after
	// it. The goroutine that applies revisions calls it before Derive, Expose and Observe get the same
	// revision. It is not called for a Reset.
	Prepare(state NextState, changes []Change)
}

// NextState reads the values after a revision that is about to be applied.
type NextState interface {
	Getter
	// AscendPrevious calls fn for the rows before the revision below a prefix, in key order until it returns
	// false.
	AscendPrevious(prefix string, fn func(*Row) bool)
}

// Config configures a table. Deriver, Exposer and Observer may be nil. Those that are Preparers are called
// as such, too.
type Config struct {
	Deriver  Deriver
	Exposer  Exposer
	Observer Observer
	// WindowSteps and WindowBytes limit each window of recent changes.
	WindowSteps int
	WindowBytes int
}

// Table is the state of the log, for readers. It is safe for concurrent use.
type Table struct {
	config Config
	rev    atomic.Int64

	mu          sync.RWMutex
	rows        btree.Map[string, *Row]
	members     map[key.Location]*btree.Set[string]
	exportViews btree.BTreeG[*exportView]
	windows     [windowCount]window
	subs        map[Topic]map[*Subscription]struct{}
	offered     []*Subscription // to be woken at the end of the revision being applied
	snap        *Snapshot
	// reached is closed and replaced when the revision advances.
	reached chan struct{}

	preparers []Preparer // constant
}

// Writer is a Table with the methods that change it, which only the goroutine that tails the log may
// call.
type Writer struct{ *Table }

// New makes an empty table at revision 0.
func New(config Config) *Writer {
	t := &Table{config: config, reached: make(chan struct{})}
	t.clear(0)
	t.subs = map[Topic]map[*Subscription]struct{}{}
	for _, one := range []any{config.Deriver, config.Exposer, config.Observer} {
		if p, ok := one.(Preparer); ok {
			t.preparers = append(t.preparers, p)
		}
	}
	return &Writer{t}
}

func (t *Table) clear(rev int64) {
	t.rows = btree.Map[string, *Row]{}
	t.members = map[key.Location]*btree.Set[string]{}
	t.exportViews = *btree.NewBTreeGOptions(isExportViewBefore, btree.Options{NoLocks: true})
	t.snap = nil
	for i := range t.windows {
		t.windows[i] = window{floor: rev, maxSteps: t.config.WindowSteps, maxBytes: t.config.WindowBytes}
	}
}

// Reset replaces the whole state by the state at a revision. All subscriptions end with ErrExpired.
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
	if t.config.Exposer != nil {
		t.config.Exposer.Reset()
	}
	changes := t.derive(t.write(changesOf(state, locked{t.Table})))
	if t.config.Observer != nil {
		t.config.Observer.Reset()
		t.config.Observer.Observe(rev, changes)
	}
	t.advance(rev)
}

// Apply applies all updates of one revision. It returns an error if the revision is not above that of
// the table.
func (t *Writer) Apply(rev int64, updates []Update) error {
	if last := t.rev.Load(); rev <= last {
		return fmt.Errorf("apply revision %d after %d: out of order", rev, last)
	}
	changes := changesOf(updates, current{t.Table})
	for _, p := range t.preparers {
		p.Prepare(&nextState{changes: changes, now: current{t.Table}}, changes)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	changes = t.derive(t.write(changes))
	if t.config.Observer != nil {
		t.config.Observer.Observe(rev, changes)
	}
	t.publish(rev, changes)
	t.advance(rev)
	t.wake()
	return nil
}

// Progress records that the log has no other changes up to a revision.
func (t *Writer) Progress(rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rev > t.rev.Load() {
		t.advance(rev)
	}
}

// changesOf returns the changes by updates of a state, in the order of keys.
func changesOf(updates []Update, state Getter) []Change {
	changes := make([]Change, 0, len(updates))
	for _, u := range updates {
		c := Change{Prev: state.Get(u.Key)}
		if u.Value != nil {
			c.Cur = newRow(u)
		}
		if c.Prev != nil || c.Cur != nil {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, compareKeys)
	return changes
}

// write replaces the rows of changes.
func (t *Table) write(changes []Change) []Change {
	for _, c := range changes {
		if c.Cur == nil {
			t.rows.Delete(c.Prev.Key)
		} else {
			t.rows.Set(c.Cur.Key, c.Cur)
		}
	}
	return changes
}

// current reads the rows of a table for callers that do not hold its lock.
type current struct{ t *Table }

func (c current) Get(k string) *Row {
	row, _ := c.t.Get(k)
	return row
}

// nextState implements NextState.
type nextState struct {
	changes []Change // in the order of keys
	now     current
}

func (n *nextState) Get(k string) *Row {
	if c := find(n.changes, k); c != nil {
		return c.Cur
	}
	return n.now.Get(k)
}

func (n *nextState) AscendPrevious(prefix string, fn func(*Row) bool) {
	n.now.t.Snapshot().Ascend(prefix, fn)
}

func compareKeys(a, b Change) int { return strings.Compare(a.Row().Key, b.Row().Key) }

// derive calls the Deriver and the Exposer, and returns the changes with memberships and exposures set:
// changes of values, then those of membership alone, then those of exposures alone.
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
			cur := &Row{Entry: row.Entry, In: a.In, Exposure: row.Exposure}
			t.rows.Set(a.Key, cur)
			moved = append(moved, Change{Prev: row, Cur: cur, cause: a.cause()})
		}
		slices.SortFunc(moved, compareKeys)
		changes = append(values, moved...)
	}
	changes = t.expose(changes, len(values))
	for _, c := range changes {
		t.indexMembership(c)
		t.indexExposure(c)
	}
	return changes
}

// indexMembership updates the index of memberships for a change.
func (t *Table) indexMembership(c Change) {
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Locations() {
			if c.Cur != nil && c.Cur.In != nil && (c.Cur.In == c.Prev.In || c.Cur.In.Includes(m)) {
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
		for _, m := range c.Cur.In.Locations() {
			if c.Prev != nil && c.Prev.In != nil && c.Prev.In.Includes(m) {
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

// Rev returns the revision that the table has reached.
func (t *Table) Rev() int64 { return t.rev.Load() }

// Size returns the number of rows.
func (t *Table) Size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rows.Len()
}

// WaitFor blocks until the table has reached a revision, or returns the context's error.
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

// Floor returns the oldest revision from which a subscription to topics can resume.
func (t *Table) Floor(topics ...Topic) int64 {
	var windows windowSet
	for _, topic := range topics {
		windows[topic.window()] = true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.floor(windows)
}

// Oldest returns the oldest revision from which a subscription to any topic can resume.
func (t *Table) Oldest() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	oldest := t.windows[0].floor
	for i := range t.windows {
		oldest = min(oldest, t.windows[i].floor)
	}
	return oldest
}

// locked is a Reader of the rows for callers that hold the table's lock.
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
