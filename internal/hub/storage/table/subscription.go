package table

import (
	"cmp"
	"slices"
	"sync"
)

// queueLimit is the maximum number of queued steps of a subscription. If it needs more, it reads the
// window instead.
const queueLimit = 16

// catchUpSteps is the maximum number of steps of the window that one Poll reads.
const catchUpSteps = 2000

// Subscription delivers, in order and without gaps, the changes of its topics for as long
// as its conditions hold. It has no goroutine. A subscriber that does not read costs only memory, and
// gets ErrExpired when the window no longer has the steps that it needs. Poll is for one goroutine.
type Subscription struct {
	table   *Table
	topics  []Topic
	windows windowSet
	wake    chan struct{}

	// Only the goroutine that polls uses these: end is the End of a condition that no longer holds,
	// until the last revision before that, and over is true if the steps up to it were delivered.
	end   error
	until int64
	over  bool

	mu         sync.Mutex
	conditions []checkedCondition
	queue      []Step // the last may be of a revision that is still being applied
	lagging    bool   // the queue overflowed, or history has yet to be read from the window
	pos        int64  // if lagging, everything up to here has been delivered
	offered    int64  // the last revision that offered something
	expired    bool
}

// Subscribe starts a subscription to the changes of topics after a revision. It returns ErrExpired if
// the window of a topic no longer has all steps after the revision, and ErrFuture if the table has not
// reached it. Conditions are checked from the current revision on, not from the given one: if one does
// not hold, Subscribe returns its End. The caller must call Close.
func (t *Table) Subscribe(after int64, conditions []Condition, topics ...Topic) (*Subscription, error) {
	s, err := t.register(after, conditions, topics)
	if err != nil {
		return nil, err
	}
	if err := s.Ended(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// register also reads the current rows of the conditions, which are checked without the lock. No later
// change of these rows is missed.
func (t *Table) register(after int64, conditions []Condition, topics []Topic) (*Subscription, error) {
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
	s.conditions = make([]checkedCondition, 0, len(conditions))
	for _, c := range conditions {
		row, _ := t.rows.Get(c.Key)
		s.conditions = append(s.conditions, checkedCondition{Condition: c, changed: true, row: row, since: now})
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

// each calls fn for all topics of the subscription and of its conditions, with duplicates.
func (s *Subscription) each(fn func(Topic)) {
	for _, topic := range s.topics {
		fn(topic)
	}
	for i := range s.conditions {
		fn(KeyTopic(s.conditions[i].Key))
	}
}

// Close ends the subscription, so that the table drops it.
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

// Wake returns a channel that receives when Poll may have a result. It is never closed.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Poll returns, without blocking, the available steps, and the revision up to which the topics have no
// other changes. When a condition no longer holds, Poll returns the available steps from before that,
// and then the condition's End. A lagging subscription does not read the window up to that point, so
// that it ends soon.
func (s *Subscription) Poll() (steps []Step, upTo int64, err error) {
	if s.over {
		return nil, 0, s.end
	}
	steps, upTo, changed, err := s.next()
	if err != nil {
		return nil, 0, cmp.Or(s.end, err)
	}
	s.check(changed)
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

// next takes, atomically, the next steps and the conditions whose rows have changed.
func (s *Subscription) next() (steps []Step, upTo int64, changed []checkedCondition, err error) {
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

// take removes the steps up to a revision from the queue and returns them. s.mu is held. The table's
// revision advances after the offers of that revision, so a step above it may be incomplete.
func (s *Subscription) take(upTo int64) []Step {
	n := len(s.queue)
	if n > 0 && s.queue[n-1].Rev > upTo {
		n--
	}
	steps := s.queue[:n:n]
	s.queue = slices.Clone(s.queue[n:])
	return steps
}

// catchUp reads the next steps from the window. The table's lock is held, so no revision is applied
// meanwhile, and after the last steps the subscription can use its queue again.
func (s *Subscription) catchUp() (steps []Step, upTo int64, changed []checkedCondition, err error) {
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
		if slices.ContainsFunc(s.topics, func(t Topic) bool { return t.matches(c) }) {
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

// offer adds one change of a revision for a topic of the subscription. The table's lock is held. It
// reports whether the subscription must be woken when the revision is complete.
func (s *Subscription) offer(rev int64, topic Topic, c Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.offered != rev
	s.offered = rev
	if topic.kind == keyTopic {
		for i := range s.conditions {
			if condition := &s.conditions[i]; condition.Key == topic.name {
				condition.update(rev, c.Cur)
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
		// The window has the dropped steps.
		s.lagging, s.pos, s.queue = true, s.queue[0].Rev-1, nil
		return first
	}
	s.queue = append(s.queue, Step{Rev: rev, Changes: []Change{c}})
	return first
}

// add adds a change, unless it is the last one: a change can be offered for several topics in a row.
func (s *Step) add(c Change) {
	if last := s.Changes[len(s.Changes)-1]; last.Prev != c.Prev || last.Cur != c.Cur {
		s.Changes = append(s.Changes, c)
	}
}

// publish adds the changes of a revision to the windows and offers them to subscriptions with matching
// topics. The caller must call wake when the table has reached the revision.
func (t *Table) publish(rev int64, changes []Change) {
	var counts [windowCount]int
	for _, c := range changes {
		w := windowOf(c.Row().Key)
		counts[w]++
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
	for w, n := range counts {
		if n > 0 {
			t.windows[w].append(Step{Rev: rev, Changes: ofWindow(w, n, changes)})
		}
	}
}

// ofWindow returns the n changes that belong to a window. In the usual case, that all do, it returns
// changes without a copy.
func ofWindow(w, n int, changes []Change) []Change {
	if n == len(changes) {
		return slices.Clip(changes)
	}
	matching := make([]Change, 0, n)
	for _, c := range changes {
		if windowOf(c.Row().Key) == w {
			matching = append(matching, c)
		}
	}
	return matching
}

// wake wakes the subscriptions to which publish has offered a change.
func (t *Table) wake() {
	for _, s := range t.offered {
		s.signal()
	}
	clear(t.offered)
	t.offered = t.offered[:0]
}
