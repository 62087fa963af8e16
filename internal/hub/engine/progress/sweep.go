package progress

import (
	"slices"

	"orrery.dev/orrery/internal/hub/engine/placement"
)

// sweep follows the pairs of a space that are due at its beginning until each of them is evaluated. Unlike rounds,
// sweeps do not end while one of these pairs waits behind pairs that become due all the time.
type sweep struct {
	// number identifies the sweep; 0 if none has begun.
	number int
	// rev is the revision up to which changes were applied at its beginning.
	rev int64
	// pairs is the number of its pairs that are not evaluated yet.
	pairs int
}

// beginSweep begins a sweep of a queue if the last one has ended. All changes up to rev are applied.
func (s *schedule) beginSweep(q *queue, rev int64) {
	if q.sweep.pairs > 0 {
		return
	}
	if q.sweep.number > 0 {
		q.swept = q.sweep.rev
	}
	s.sweeps++
	q.sweep = sweep{s.sweeps, rev, q.pairs}
}

// joinSweep updates the part of an object in the current sweep of its space. It must be called before the due pairs
// of the object change. It returns the sweep; nil if there is none.
func (s *schedule) joinSweep(o *object) *sweep {
	q := s.queues[o.id.Space]
	if q == nil || q.sweep.number == 0 {
		o.sweep, o.unswept = 0, nil
		return nil
	}
	if o.sweep != q.sweep.number {
		o.sweep, o.unswept = q.sweep.number, slices.Clone(o.due)
	}
	return &q.sweep
}

// leaveSweep removes a member of an object, which is evaluated, from the current sweep.
func (s *schedule) leaveSweep(o *object, member int) {
	if current := s.joinSweep(o); current != nil && o.unswept.contains(member) {
		o.unswept.remove(member)
		current.pairs--
	}
}

// moveInSweep replaces the members of an object in the current sweep by the same locations of its new Membership.
func (s *schedule) moveInSweep(o *object, previous, as *placement.Membership) {
	current := s.joinSweep(o)
	if current == nil || previous == as || o.unswept.size() == 0 {
		return
	}
	current.pairs -= o.unswept.size()
	var moved members
	if as != nil {
		moved = noneOf(len(as.Members()))
		for i := range o.unswept.all() {
			if to, ok := slices.BinarySearch(as.Members(), previous.Members()[i]); ok {
				moved.add(to)
			}
		}
	}
	o.unswept = moved
	current.pairs += moved.size()
}
