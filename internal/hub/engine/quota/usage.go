// Package quota counts what each space holds, and refuses what would make a space
// larger than its Space object allows.
//
// It must never write, nor know how an object came to be written.
package quota

import (
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Amount is how much a space holds: objects of all kinds, their bytes as they
// are stored, and how many of them are CRDs, policies (Placements, Customizers and KindRules) and Summaries.
// PolicyTests is how many tests the policies have; see selectors.TestsIn.
type Amount struct {
	Objects, Bytes, CRDs, Policies, PolicyTests, Summaries int64
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Objects + b.Objects, a.Bytes + b.Bytes, a.CRDs + b.CRDs, a.Policies + b.Policies, a.PolicyTests + b.PolicyTests, a.Summaries + b.Summaries}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Objects - b.Objects, a.Bytes - b.Bytes, a.CRDs - b.CRDs, a.Policies - b.Policies, a.PolicyTests - b.PolicyTests, a.Summaries - b.Summaries}
}

// grown is the amount without its negative parts.
func (a Amount) grown() Amount {
	return Amount{max(a.Objects, 0), max(a.Bytes, 0), max(a.CRDs, 0), max(a.Policies, 0), max(a.PolicyTests, 0), max(a.Summaries, 0)}
}

// Usage counts what each space holds. It observes the table, and also counts the
// writes of this process that the table does not show yet, so that concurrent writers
// can't pass a limit together. A write whose client went away is counted once it is
// observed. It is safe for concurrent use.
type Usage struct {
	mu sync.Mutex
	// rev is the last revision that was observed.
	rev    int64
	spaces map[key.Space]*usage
	// stored is what the table holds, pending the bytes that spaces are about to hold besides.
	stored  Stored
	pending int64
	landed  []landing
	// writing are the writes that are not observed yet, by their keys.
	writing map[string][]*reservation
	// grown is by how many bytes objects that are being deleted have grown since they
	// were marked, or first observed; only those that have are in it.
	grown map[string]int
	// weigh is selectors.TestsIn, which decodes a value.
	weigh func(value []byte) int
	// tests are those of each policy of the table, by key, prepared those of policies that are about to be
	// observed. Only the goroutine that applies revisions uses them, so that mu does not guard them.
	tests    map[string]int64
	prepared map[*table.Entry]int64
}

// usage has the stored amount of one space, and the amount of its pending writes.
type usage struct{ held, pending Amount }

// landing is a write that is in the log and has not been observed.
type landing struct {
	rev   int64
	write *reservation
}

// reservation is a write that may be in the log and has not been observed.
type reservation struct {
	space key.Space
	key   string
	// value is the written amount, and row that of the row observed last in its place since the write began;
	// seen is true if there was one.
	value, row Amount
	seen       bool
	// more is the amount that is counted as pending.
	more Amount
}

var (
	_ table.Observer = (*Usage)(nil)
	_ table.Preparer = (*Usage)(nil)
)

// NewUsage makes a Usage that has observed nothing yet.
func NewUsage() *Usage {
	return &Usage{weigh: selectors.TestsIn, spaces: map[key.Space]*usage{}, writing: map[string][]*reservation{}, grown: map[string]int{}, tests: map[string]int64{}, prepared: map[*table.Entry]int64{}}
}

// InSpace returns the amount that a space holds.
func (u *Usage) InSpace(s key.Space) Amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	if used := u.spaces[s]; used != nil {
		return used.held
	}
	return Amount{}
}

// Stored is what the log holds, in bytes of keys and values: those of objects, and all others, which are
// mostly reports.
type Stored struct{ Objects, Others int64 }

// all returns what the table holds, with pending writes. The caller holds the lock.
func (u *Usage) all() Stored { return Stored{u.stored.Objects + u.pending, u.stored.Others} }

// Reset implements table.Observer: it forgets what spaces hold, but not pending writes.
func (u *Usage) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored = Stored{}
	for s, used := range u.spaces {
		used.held = Amount{}
		u.drop(s)
	}
	for _, all := range u.writing {
		for _, w := range all {
			w.row, w.seen = Amount{}, true
			u.count(w)
		}
	}
	clear(u.grown)
	clear(u.tests)
	u.rev = 0
}

// Prepare implements table.Preparer: it counts the tests of policies, which are as large as users write them.
func (u *Usage) Prepare(_ table.NextState, changes []table.Change) {
	clear(u.prepared)
	for _, c := range changes {
		if _, r, _, ok := key.Split(c.Row().Key); ok && c.Cur != nil && amountSized(r, 0).Policies > 0 {
			u.prepared[c.Cur.Entry] = int64(u.weigh(c.Cur.Value))
		}
	}
}

// observed returns what the row of a change added to its space before, and what it adds now.
func (u *Usage) observed(r key.Resource, c table.Change) (before, now Amount) {
	k := c.Row().Key
	if c.Prev != nil {
		before = amountSized(r, len(c.Prev.Value))
		before.PolicyTests = u.tests[k]
	}
	delete(u.tests, k)
	if c.Cur == nil {
		return before, now
	}
	if now = amountSized(r, len(c.Cur.Value)); now.Policies > 0 {
		tests, ok := u.prepared[c.Cur.Entry]
		if !ok { // the whole state was loaded
			tests = int64(u.weigh(c.Cur.Value))
		}
		now.PolicyTests, u.tests[k] = tests, tests
	}
	return before, now
}

// Observe implements table.Observer: it counts the objects of a revision.
func (u *Usage) Observe(rev int64, changes []table.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rev = rev
	for _, c := range changes {
		if c.SameEntry() {
			continue
		}
		more := storedBytes(c.Cur) - storedBytes(c.Prev)
		s, r, _, ok := key.Split(c.Row().Key)
		if !ok {
			u.stored.Others += more
			continue
		}
		u.stored.Objects += more
		used := u.usageOf(s)
		before, now := u.observed(r, c)
		used.held = used.held.plus(now).minus(before)
		for _, w := range u.writing[c.Row().Key] {
			w.row, w.seen = now, true
			u.count(w)
		}
		u.drop(s)
		u.grow(c)
	}
	waiting := u.landed[:0]
	for _, l := range u.landed {
		if l.rev > rev {
			waiting = append(waiting, l)
			continue
		}
		u.end(l.write)
	}
	u.landed = waiting
}

// grow adds up what an object grows by while it is being deleted.
func (u *Usage) grow(c table.Change) {
	if c.Prev == nil || c.Cur == nil || !c.Prev.Meta.Deleting || !c.Cur.Meta.Deleting {
		delete(u.grown, c.Row().Key)
		return
	}
	if growth := u.grown[c.Cur.Key] + len(c.Cur.Value) - len(c.Prev.Value); growth > 0 {
		u.grown[c.Cur.Key] = growth
	} else {
		delete(u.grown, c.Cur.Key)
	}
}

// endingSlack is the number of bytes by which an object may grow in all while it is being deleted: by
// conditions, and by managed fields of their writers. More is no part of its end.
const endingSlack = 4 << 10

// slack is by how many bytes an object may still grow while it is being deleted. The
// row to compare with must be read before it is called.
func (u *Usage) slack(k string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(endingSlack-u.grown[k], 0)
}

// begin notes that a key is about to be written: from now on it is known what is in its place.
func (u *Usage) begin(s key.Space, k string) *reservation {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := &reservation{space: s, key: k}
	u.writing[k] = append(u.writing[k], w)
	return w
}

// reserve counts a pending write of a value in place of a row that was read since it began, unless
// fits refuses it, which is given what the space and the whole table hold with all other pending writes, and
// by how much this makes the space larger. done must be called with the revision of the write, or 0 if nothing was
// written.
func (u *Usage) reserve(w *reservation, value, row Amount, fits func(used, more Amount, all Stored) error) (done func(rev int64), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	used := u.usageOf(w.space)
	if w.seen { // after it was read, or as it was
		row = w.row
	}
	if err := fits(used.held.plus(used.pending), value.minus(row), u.all()); err != nil {
		u.end(w)
		return nil, err
	}
	w.value, w.row = value, row
	u.count(w)
	return func(rev int64) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if rev > u.rev {
			u.landed = append(u.landed, landing{rev, w})
			return
		}
		u.end(w)
	}, nil
}

// count counts as pending the growth by a write against the current row. If other writes have made the row
// smaller since it was read, that is not free for further writes. If the write itself makes it smaller, that is
// free once the write is observed.
func (u *Usage) count(w *reservation) {
	used, more := u.usageOf(w.space), w.value.minus(w.row).grown()
	used.pending = used.pending.minus(w.more).plus(more)
	u.pending += more.Bytes - w.more.Bytes
	w.more = more
}

// cancel ends a write that was not reserved.
func (u *Usage) cancel(w *reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end(w)
}

// end ends a write: the table shows it, or it was not made.
func (u *Usage) end(w *reservation) {
	used := u.usageOf(w.space)
	used.pending = used.pending.minus(w.more)
	u.pending -= w.more.Bytes
	u.drop(w.space)
	left := slices.DeleteFunc(u.writing[w.key], func(other *reservation) bool { return other == w })
	if u.writing[w.key] = left; len(left) == 0 {
		delete(u.writing, w.key)
	}
}

func (u *Usage) usageOf(s key.Space) *usage {
	used := u.spaces[s]
	if used == nil {
		used = &usage{}
		u.spaces[s] = used
	}
	return used
}

// drop forgets a space that holds nothing.
func (u *Usage) drop(s key.Space) {
	if used := u.spaces[s]; used != nil && *used == (usage{}) {
		delete(u.spaces, s)
	}
}

// amountOf returns what a row adds to its space.
func (u *Usage) amountOf(r key.Resource, row *table.Row) Amount {
	if row == nil {
		return Amount{}
	}
	return u.amountIn(r, row.Value)
}

// amountIn returns what a value adds to its space.
func (u *Usage) amountIn(r key.Resource, value []byte) Amount {
	a := amountSized(r, len(value))
	if a.Policies > 0 {
		a.PolicyTests = int64(u.weigh(value))
	}
	return a
}

// amountSized returns what an object of a size adds to its space, but for the tests of a policy.
func amountSized(r key.Resource, size int) Amount {
	a := Amount{Objects: 1, Bytes: int64(size)}
	switch r {
	case key.CRDs:
		a.CRDs = 1
	case key.Placements, key.Customizers, key.KindRules:
		a.Policies = 1
	case key.Summaries:
		a.Summaries = 1
	}
	return a
}

func storedBytes(row *table.Row) int64 {
	if row == nil {
		return 0
	}
	return int64(len(row.Key) + len(row.Value))
}
