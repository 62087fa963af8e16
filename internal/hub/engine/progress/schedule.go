package progress

import (
	"maps"
	"slices"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// budget is the number of pairs that one call of Work evaluates, for all spaces together. Each space whose turn
// it is has at least minBudget, which is also the turn of one object. A pair costs one rendering of an object.
const budget, minBudget = 1024, 16

const (
	// maxRound limits the number of evaluations of one space in a round.
	maxRound = 1 << 20
	// maxRounds is the number of rounds for which the counts of a space with due pairs are withheld.
	maxRounds = 2
)

// queue has the objects of a space with pairs that are due, in order.
//
// Rounds divide its evaluations: a round has twice as many as pairs are due when it begins, since some change
// meanwhile.
type queue struct {
	objects []*object
	// turn is the number of pairs of the first object that were evaluated since it became the first.
	turn int
	// pairs is the number of due pairs.
	pairs int
	// rest is the number of evaluations that are left in the round, and rounds the number of rounds that have
	// ended.
	rest, rounds int
	// isFirst is true in the first round after a Reset. The counts of root and of locations wait for it.
	isFirst bool
	// isChanged is true if a round has ended since the counts were shown last.
	isChanged bool
	// sweep is the current sweep. All pairs that were due because of changes up to the revision swept have been
	// evaluated.
	sweep sweep
	swept int64
}

// isOverdue reports whether counts are shown though pairs are due.
func (q *queue) isOverdue() bool { return q.rounds >= maxRounds }

// begin begins a round, unless one has begun.
func (q *queue) begin() {
	if q.rest == 0 {
		q.rest = min(maxRound, 2*q.pairs)
	}
}

// evaluated counts an evaluation, which may end the round.
func (q *queue) evaluated() {
	if q.rest == 0 {
		return // none has begun
	}
	if q.rest--; q.rest == 0 {
		q.rounds, q.isFirst, q.isChanged = q.rounds+1, false, true
	}
}

// rotate moves the first object to the end, so that the others have their turns even if it changes all the time.
func (q *queue) rotate() {
	o := q.objects[0]
	q.objects[0], q.turn = nil, 0
	q.objects = append(q.objects[1:], o)
}

// schedule holds a queue for each space with due pairs.
type schedule struct {
	queues map[key.Space]*queue
	// isNew is true until Work has applied the complete state after a Reset.
	isNew bool
	// last is the space that had the last turn.
	last key.Space
	// sweeps is the number of sweeps that have begun.
	sweeps int
}

func newSchedule() schedule { return schedule{queues: map[key.Space]*queue{}, isNew: true} }

// begin returns the spaces with due pairs in the order of their turns, which begins after the last one. isWhole
// is true if the complete state after the last Reset is applied. All changes up to rev are applied.
func (s *schedule) begin(isWhole bool, rev int64) []key.Space {
	isFirst := s.isNew && isWhole
	s.isNew = s.isNew && !isWhole
	for _, q := range s.queues {
		if isFirst {
			q.isFirst = true
		}
		if !s.isNew {
			q.begin()
			s.beginSweep(q, rev)
		}
	}
	spaces := slices.Sorted(maps.Keys(s.queues))
	next, _ := slices.BinarySearch(spaces, s.last+"\x00")
	return slices.Concat(spaces[next:], spaces[:next])
}

// add adds n due pairs of an object.
func (s *schedule) add(o *object, n int) {
	if n == 0 {
		return
	}
	q := s.queues[o.id.Space]
	if q == nil {
		q = &queue{}
		s.queues[o.id.Space] = q
	}
	q.pairs += n
	if !o.isQueued {
		o.isQueued, q.objects = true, append(q.objects, o)
	}
}

// remove removes n due pairs of an object. The object stays in the queue until it is the first.
func (s *schedule) remove(o *object, n int) {
	if q := s.queues[o.id.Space]; q != nil {
		q.pairs -= n
	}
}

// next returns the next pair of a space that is due; ok is false if there is none.
func (s *schedule) next(space key.Space) (e evaluation, ok bool) {
	q := s.queues[space]
	if q == nil {
		return e, false
	}
	q.evaluated()
	if q.turn >= minBudget {
		q.rotate()
	}
	for len(q.objects) > 0 {
		o := q.objects[0]
		if e, ok = o.next(); ok {
			q.turn++
			return e, true
		}
		o.isQueued, q.objects[0], q.turn = false, nil, 0
		q.objects = q.objects[1:]
	}
	delete(s.queues, space)
	return e, false
}

// hasDue reports whether pairs of a space are due.
func (s *schedule) hasDue(space key.Space) bool { return s.queues[space] != nil }

// isEvaluated reports whether all pairs of a space that were due because of changes up to a revision, which are applied,
// have been evaluated since.
func (s *schedule) isEvaluated(space key.Space, rev int64) bool {
	q := s.queues[space]
	return q == nil || q.swept >= rev
}

// isWithheld reports whether the counts of a space wait for pairs that are due: for its own, at most for maxRounds
// rounds, and those of root for the first round of each space after a Reset. All wait until the whole state is
// known.
func (s *schedule) isWithheld(space key.Space) bool {
	if q := s.queues[space]; s.isNew || q != nil && !q.isOverdue() {
		return true
	}
	if space != key.Root {
		return false
	}
	for _, q := range s.queues {
		if q.isFirst {
			return true
		}
	}
	return false
}

// isOmitted reports whether the counts of a space are withheld, or were shown since the last round ended.
func (s *schedule) isOmitted(space key.Space) bool {
	q := s.queues[space]
	return s.isWithheld(space) || q != nil && !q.isChanged
}

// shown records that the counts of all spaces are shown which are not omitted.
func (s *schedule) shown() {
	for space, q := range s.queues {
		q.isChanged = q.isChanged && s.isWithheld(space)
	}
}

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
