// Package limits counts what each space holds, and refuses what would make a space
// larger than its Space object allows.
//
// It must never write, nor know how an object came to be written.
package limits

import (
	"sync"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Amount is how much a space holds: objects of all kinds, their bytes as they
// are stored, and how many of them are CRDs, and policies: Placements and Customizers.
type Amount struct {
	Objects, Bytes, CRDs, Policies int64
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Objects + b.Objects, a.Bytes + b.Bytes, a.CRDs + b.CRDs, a.Policies + b.Policies}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Objects - b.Objects, a.Bytes - b.Bytes, a.CRDs - b.CRDs, a.Policies - b.Policies}
}

// grown is the amount without its negative parts.
func (a Amount) grown() Amount {
	return Amount{max(a.Objects, 0), max(a.Bytes, 0), max(a.CRDs, 0), max(a.Policies, 0)}
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
	landed []landing
	// grown is by how many bytes objects that are being deleted have grown since they
	// were marked, or first observed; only those that have are in it.
	grown map[string]int
}

// usage is what one space holds, and what is being written into it.
type usage struct{ held, pending Amount }

// landing is a write that is in the log and has not been observed.
type landing struct {
	rev    int64
	space  key.Space
	amount Amount
}

var _ table.Observer = (*Usage)(nil)

// NewUsage makes a Usage that has observed nothing yet.
func NewUsage() *Usage { return &Usage{spaces: map[key.Space]*usage{}, grown: map[string]int{}} }

// Of is what a space holds.
func (u *Usage) Of(s key.Space) Amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	if of := u.spaces[s]; of != nil {
		return of.held
	}
	return Amount{}
}

// Reset implements table.Observer: it forgets what spaces hold, but not pending writes.
func (u *Usage) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, of := range u.spaces {
		of.held = Amount{}
		u.drop(s)
	}
	clear(u.grown)
	u.rev = 0
}

// Observe implements table.Observer: it counts the objects of a revision.
func (u *Usage) Observe(rev int64, changes []table.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rev = rev
	for _, c := range changes {
		s, r, _, ok := key.Split(c.Row().Key)
		if !ok || c.SameEntry() {
			continue
		}
		of := u.of(s)
		of.held = of.held.plus(amountOf(r, c.Cur)).minus(amountOf(r, c.Prev))
		u.drop(s)
		u.grow(c)
	}
	waiting := u.landed[:0]
	for _, l := range u.landed {
		if l.rev > rev {
			waiting = append(waiting, l)
			continue
		}
		u.settle(l.space, l.amount)
	}
	u.landed = waiting
}

// grow adds up what an object grows by while it is being deleted.
func (u *Usage) grow(c table.Change) {
	if c.Prev == nil || c.Cur == nil || !c.Prev.Meta.Deleting || !c.Cur.Meta.Deleting {
		delete(u.grown, c.Row().Key)
		return
	}
	if by := u.grown[c.Cur.Key] + len(c.Cur.Value) - len(c.Prev.Value); by > 0 {
		u.grown[c.Cur.Key] = by
	} else {
		delete(u.grown, c.Cur.Key)
	}
}

// endingSlack is by how much an object may grow in all while it is being deleted: by
// conditions, and by who wrote them. More is no part of its end.
const endingSlack = 4 << 10

// slack is by how many bytes an object may still grow while it is being deleted. The
// row to compare with must be read before it is called.
func (u *Usage) slack(k string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(endingSlack-u.grown[k], 0)
}

// reserve counts a pending write into a space, unless fits refuses it, which is given
// what the space holds with all other pending writes. done must be called with the
// revision of the write, or 0 if nothing was written.
func (u *Usage) reserve(s key.Space, more Amount, fits func(before Amount) error) (done func(rev int64), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.of(s)
	if err := fits(of.held.plus(of.pending)); err != nil {
		u.drop(s)
		return nil, err
	}
	more = more.grown() // what gets smaller makes room once it is written
	of.pending = of.pending.plus(more)
	return func(rev int64) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if rev > u.rev {
			u.landed = append(u.landed, landing{rev, s, more})
			return
		}
		u.settle(s, more)
	}, nil
}

// settle ends a write: the table shows it, or it was not made.
func (u *Usage) settle(s key.Space, amount Amount) {
	of := u.of(s)
	of.pending = of.pending.minus(amount)
	u.drop(s)
}

func (u *Usage) of(s key.Space) *usage {
	of := u.spaces[s]
	if of == nil {
		of = &usage{}
		u.spaces[s] = of
	}
	return of
}

// drop forgets a space that holds nothing.
func (u *Usage) drop(s key.Space) {
	if of := u.spaces[s]; of != nil && *of == (usage{}) {
		delete(u.spaces, s)
	}
}

// amountOf is what a row adds to its space.
func amountOf(r key.Resource, row *table.Row) Amount {
	if row == nil {
		return Amount{}
	}
	return amount(r, len(row.Value))
}

func amount(r key.Resource, size int) Amount {
	a := Amount{Objects: 1, Bytes: int64(size)}
	switch r {
	case key.CRDs:
		a.CRDs = 1
	case key.Placements, key.Customizers:
		a.Policies = 1
	}
	return a
}
