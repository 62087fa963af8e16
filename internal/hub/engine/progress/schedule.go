package progress

import (
	"maps"
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// budget is the number of pairs that one call of Work evaluates, for all spaces together. Each space with due
// pairs has at least minBudget, which is also the turn of one object. A pair costs one rendering of an object.
const budget, minBudget = 1024, 16

// maxFirst limits the number of pairs of one space whose evaluation the counts of root and of locations wait
// for after a Reset.
const maxFirst = 1 << 20

// queue has the objects of a space with pairs that are due, in order.
type queue struct {
	objects []*object
	// turn is the number of pairs of the first object that were evaluated since it became the first.
	turn int
	// first is the number of pairs that the counts of root and of locations still wait for; see maxFirst.
	first int
}

// pairs returns the number of due pairs.
func (q *queue) pairs() (n int) {
	for _, o := range q.objects {
		n += o.due.size()
	}
	return n
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
}

func newSchedule() schedule { return schedule{map[key.Space]*queue{}, true} }

// begin returns the spaces with due pairs, in order. isWhole is true if the complete state after the last Reset
// is applied.
func (s *schedule) begin(isWhole bool) []key.Space {
	if s.isNew && isWhole {
		s.isNew = false
		for _, q := range s.queues {
			q.first = min(maxFirst, 2*q.pairs()) // twice, since some change meanwhile
		}
	}
	return slices.Sorted(maps.Keys(s.queues))
}

// addAll has all pairs of an object evaluated.
func (s *schedule) addAll(o *object) {
	if o.due = nil; o.as != nil && len(o.as.Members()) > 0 {
		o.due = allOf(len(o.as.Members()))
		s.enqueue(o)
	}
}

// add has one pair of an object evaluated.
func (s *schedule) add(o *object, member int) {
	if o.due == nil {
		o.due = noneOf(len(o.as.Members()))
	}
	o.due.add(member)
	s.enqueue(o)
}

func (s *schedule) enqueue(o *object) {
	if o.isQueued {
		return
	}
	q := s.queues[o.id.Space]
	if q == nil {
		q = &queue{}
		s.queues[o.id.Space] = q
	}
	o.isQueued, q.objects = true, append(q.objects, o)
}

// next returns the next pair of a space that is due; ok is false if there is none.
func (s *schedule) next(space key.Space) (e evaluation, ok bool) {
	q := s.queues[space]
	if q == nil {
		return e, false
	}
	q.first = max(q.first-1, 0)
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

// isHeld reports whether the counts of a space wait for pairs that are due: for its own, and those of root for
// the pairs that are evaluated for the first time since a Reset. All wait until the whole state is known.
func (s *schedule) isHeld(space key.Space) bool {
	if s.isNew || s.queues[space] != nil {
		return true
	}
	if space != key.Root {
		return false
	}
	for _, q := range s.queues {
		if q.first > 0 {
			return true
		}
	}
	return false
}
