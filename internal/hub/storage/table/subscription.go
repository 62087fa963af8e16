package table

import (
	"cmp"
	"slices"
	"sync"
)

// queueLimit is how many steps a subscription queues before it reads the window instead.
const queueLimit = 16

// catchUpSteps is how many steps of the window one Poll reads at most.
const catchUpSteps = 2000

// Subscription delivers, in order and without gaps, the changes of its topics for as long
// as its premises hold. It has no goroutine; a subscriber that does not read costs only
// memory, and gets ErrExpired once the window no longer reaches back to where it is. Poll
// is for one goroutine.
type Subscription struct {
	table   *Table
	topics  []Topic
	windows windowSet
	wake    chan struct{}

	// Only the goroutine that polls uses these: the End of a premise that does not hold,
	// the last revision before that, and whether the steps up to it were delivered.
	end   error
	until int64
	over  bool

	mu       sync.Mutex
	premises []rested
	queue    []Step // the last may be of a revision that is still being applied
	lagging  bool   // the queue overflowed, or history has yet to be read from the window
	pos      int64  // if lagging, everything up to here has been delivered
	offered  int64  // the last revision that offered something
	expired  bool
}

// Subscribe starts a subscription to the changes of topics after a revision. It fails with
// ErrExpired, if the window of one of them no longer reaches back to that, or ErrFuture.
// Premises must hold from now on, not from that revision on: it fails with the End of one
// that does not. The caller must Close it.
func (t *Table) Subscribe(after int64, premises []Premise, topics ...Topic) (*Subscription, error) {
	s, err := t.register(after, premises, topics)
	if err != nil {
		return nil, err
	}
	if err := s.Ended(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// register also takes the premises' current rows, to be judged outside the lock. No change
// of them is lost between that and the first offer.
func (t *Table) register(after int64, premises []Premise, topics []Topic) (*Subscription, error) {
	s := &Subscription{table: t, topics: topics, wake: make(chan struct{}, 1), lagging: true, pos: after}
	for _, topic := range topics {
		s.windows[topic.window()] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.rev.Load()
	if after > now {
		return nil, ErrFuture
	}
	if after < t.floor(s.windows) {
		return nil, ErrExpired
	}
	s.premises = make([]rested, 0, len(premises))
	for _, p := range premises {
		row, _ := t.rows.Get(p.Key)
		s.premises = append(s.premises, rested{Premise: p, changed: true, row: row, since: now})
	}
	s.signal()
	s.each(func(topic Topic) {
		if t.subs[topic] == nil {
			t.subs[topic] = map[*Subscription]struct{}{}
		}
		t.subs[topic][s] = struct{}{}
	})
	return s, nil
}

// each calls fn for all topics of the subscription and its premises, with repeats.
func (s *Subscription) each(fn func(Topic)) {
	for _, topic := range s.topics {
		fn(topic)
	}
	for i := range s.premises {
		fn(At(s.premises[i].Key))
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.each(func(topic Topic) {
		subs := s.table.subs[topic]
		delete(subs, s)
		if len(subs) == 0 {
			delete(s.table.subs, topic)
		}
	})
}

// Wake receives when there may be something to Poll. It is never closed.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Poll returns the available steps, without blocking, and the revision up to which nothing
// else changed in the topics. Once a premise no longer holds it returns the steps that it
// has from before that, and then the premise's End: a subscription that lags is not read
// up to that point, so that it ends soon.
func (s *Subscription) Poll() (steps []Step, upTo int64, err error) {
	if s.over {
		return nil, 0, s.end
	}
	steps, upTo, changed, err := s.next()
	if err != nil {
		return nil, 0, cmp.Or(s.end, err)
	}
	s.judge(changed)
	if s.end == nil {
		return steps, upTo, nil
	}
	s.over = true
	n, _ := slices.BinarySearchFunc(steps, s.until+1, compareRev)
	if n == 0 {
		return nil, 0, s.end
	}
	s.signal() // for the next Poll, which returns the end
	return steps[:n], min(upTo, s.until), nil
}

// next takes, atomically, the next steps and the premises whose rows have changed.
func (s *Subscription) next() (steps []Step, upTo int64, changed []rested, err error) {
	s.mu.Lock()
	lagging, expired := s.lagging, s.expired
	if !lagging && !expired {
		upTo = s.table.rev.Load()
		steps, changed = s.take(upTo), s.takeChanged()
	}
	s.mu.Unlock()
	if expired {
		return nil, 0, nil, ErrExpired
	}
	if lagging {
		return s.catchUp()
	}
	return steps, upTo, changed, nil
}

// take removes the steps up to a revision from the queue; s.mu is held. The table's
// revision advances after the offers, so a step above it may still grow.
func (s *Subscription) take(upTo int64) []Step {
	n := len(s.queue)
	if n > 0 && s.queue[n-1].Rev > upTo {
		n--
	}
	steps := s.queue[:n:n]
	s.queue = slices.Clone(s.queue[n:])
	return steps
}

// catchUp reads the next part of the window. No revision is applied meanwhile,
// so at its end the subscription can go back to its queue.
func (s *Subscription) catchUp() (steps []Step, upTo int64, changed []rested, err error) {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		return nil, 0, nil, ErrExpired
	}
	missed, ok := s.table.after(s.windows, s.pos)
	if !ok {
		s.expired = true
		return nil, 0, nil, ErrExpired
	}
	more := len(missed) > catchUpSteps
	if more {
		missed = missed[:catchUpSteps]
	}
	for _, step := range missed {
		if mine := s.filter(step.Changes); len(mine) > 0 {
			steps = append(steps, Step{Rev: step.Rev, Changes: mine})
		}
	}
	if more {
		s.pos = missed[len(missed)-1].Rev
		s.signal()
		return steps, s.pos, s.takeChanged(), nil
	}
	s.lagging, s.queue, s.pos = false, nil, 0
	return steps, s.table.rev.Load(), s.takeChanged(), nil
}

func (s *Subscription) filter(changes []Change) []Change {
	var mine []Change
	for _, c := range changes {
		if slices.ContainsFunc(s.topics, func(t Topic) bool { return t.concerns(c) }) {
			mine = append(mine, c)
		}
	}
	return mine
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Subscription) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired, s.queue = true, nil
	s.signal()
}

// offer adds one change of a revision that a topic concerns; the table's lock is held. It
// says whether the subscription must be woken when the revision is complete.
func (s *Subscription) offer(rev int64, topic Topic, c Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.offered != rev
	s.offered = rev
	if topic.kind == ofKey {
		for i := range s.premises {
			if p := &s.premises[i]; p.Key == topic.name {
				p.note(rev, c.Cur)
			}
		}
	}
	if s.lagging || s.expired || !slices.Contains(s.topics, topic) {
		return first
	}
	if n := len(s.queue); n > 0 && s.queue[n-1].Rev == rev {
		s.queue[n-1].add(c)
		return first
	}
	if len(s.queue) == queueLimit {
		// The queued steps are dropped, and read again from the window.
		s.lagging, s.pos, s.queue = true, s.queue[0].Rev-1, nil
		return first
	}
	s.queue = append(s.queue, Step{Rev: rev, Changes: []Change{c}})
	return first
}

// add adds a change, but only once if it is offered for several topics in a row.
func (s *Step) add(c Change) {
	if last := s.Changes[len(s.Changes)-1]; last.Prev != c.Prev || last.Cur != c.Cur {
		s.Changes = append(s.Changes, c)
	}
}

// publish records the changes of a revision and offers them to the subscriptions that they
// concern; wake follows when the table has reached the revision.
func (t *Table) publish(rev int64, changes []Change) {
	var parts [windowCount]int
	for _, c := range changes {
		w := windowOf(c.Row().Key)
		parts[w]++
		topics(c, func(topic Topic) {
			if topic.window() != w {
				return
			}
			for s := range t.subs[topic] {
				if s.offer(rev, topic, c) {
					t.offered = append(t.offered, s)
				}
			}
		})
	}
	for w, n := range parts {
		if n > 0 {
			t.windows[w].append(Step{Rev: rev, Changes: ofWindow(w, n, changes)})
		}
	}
}

// ofWindow are the n of some changes that are of a window. Nearly always all are, and then these
// are kept as they are.
func ofWindow(w, n int, changes []Change) []Change {
	if n == len(changes) {
		return slices.Clip(changes)
	}
	part := make([]Change, 0, n)
	for _, c := range changes {
		if windowOf(c.Row().Key) == w {
			part = append(part, c)
		}
	}
	return part
}

// wake wakes the subscriptions that were offered something.
func (t *Table) wake() {
	for _, s := range t.offered {
		s.signal()
	}
	clear(t.offered)
	t.offered = t.offered[:0]
}
