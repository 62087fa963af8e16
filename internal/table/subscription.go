package table

import (
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/key"
)

// Topic says which changes a subscription is about.
type Topic struct {
	kind topicKind
	name string
}

type topicKind uint8

const (
	underPrefix topicKind = iota
	acrossSpaces
	ofMember
	ofKey
)

// Under is everything below a prefix, which ends in "/". A prefix that spans
// resources leaves out Events and Leases.
func Under(prefix string) Topic { return Topic{underPrefix, prefix} }

// At is one key.
func At(k string) Topic { return Topic{ofKey, k} }

// AcrossSpaces is everything of a resource in all spaces.
func AcrossSpaces(r key.Resource) Topic { return Topic{acrossSpaces, r.String()} }

// Of is everything that belongs, or belonged before the change, to a member, except
// changes of membership that are none for the member.
// Events, Leases and what is no object must not belong to any.
func Of(member string) Topic { return Topic{ofMember, member} }

func (t Topic) window() int {
	switch t.kind {
	case acrossSpaces:
		if isEvent(t.name + "/") {
			return eventWindow
		}
		return objectWindow
	case ofMember:
		return objectWindow
	}
	return windowOf(t.name)
}

// concerns says whether a change is about the topic.
func (t Topic) concerns(c Change) bool {
	switch t.kind {
	case ofMember:
		here := c.Prev != nil && c.Prev.In != nil && c.Prev.In.Has(t.name) ||
			c.Cur != nil && c.Cur.In != nil && c.Cur.In.Has(t.name)
		return here && !c.sameAt(t.name)
	case acrossSpaces:
		rest, ok := withoutSpace(c.Row().Key)
		return ok && strings.HasPrefix(rest, t.name) && strings.HasPrefix(rest[len(t.name):], "/")
	case ofKey:
		return c.Row().Key == t.name
	}
	return strings.HasPrefix(c.Row().Key, t.name)
}

// withoutSpace is the REST of o/SPACE/REST.
func withoutSpace(k string) (rest string, ok bool) {
	if k, ok = key.PathOf(k); !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(k, "/")
	return rest, ok
}

// topics calls fn for every topic that a change may concern, without repeats.
func topics(c Change, fn func(Topic)) {
	k := c.Row().Key
	fn(Topic{ofKey, k})
	for i := range len(k) {
		if k[i] == '/' {
			fn(Topic{underPrefix, k[:i+1]})
		}
	}
	if rest, ok := withoutSpace(k); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			if j := strings.IndexByte(rest[i+1:], '/'); j >= 0 {
				fn(Topic{acrossSpaces, rest[:i+1+j]})
			}
		}
	}
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Members() {
			if !c.sameAt(m) {
				fn(Topic{ofMember, m})
			}
		}
	}
	if c.Cur != nil && c.Cur.In != nil && (c.Prev == nil || c.Prev.In != c.Cur.In) {
		for _, m := range c.Cur.In.Members() {
			if c.Prev == nil || c.Prev.In == nil || !c.Prev.In.Has(m) {
				fn(Topic{ofMember, m})
			}
		}
	}
}

// queueLimit is how many steps wait in a subscription before it reads the
// window instead.
const queueLimit = 16

// catchUpSteps is how many steps of the window one Poll looks through.
const catchUpSteps = 2000

// Subscription delivers, in order and without gaps, the changes of a topic.
// It holds no goroutine; a subscriber that does not read costs nothing but its
// place and gets ErrExpired once the window has left it. Poll belongs to one
// goroutine.
type Subscription struct {
	table *Table
	topic Topic
	wake  chan struct{}

	mu      sync.Mutex
	queue   []Step // the last may be of a revision that is still being applied
	lagging bool   // the queue overflowed, or history is still to be read from the window
	pos     int64  // everything up to here has been delivered, when lagging
	offered int64  // the last revision that offered something
	expired bool
}

// Subscribe starts a subscription with the changes after a revision. It fails
// with ErrExpired or ErrFuture. The caller must Close it.
func (t *Table) Subscribe(topic Topic, after int64) (*Subscription, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after > t.rev.Load() {
		return nil, ErrFuture
	}
	if after < t.windows[topic.window()].floor {
		return nil, ErrExpired
	}
	s := &Subscription{table: t, topic: topic, wake: make(chan struct{}, 1), lagging: true, pos: after}
	s.signal()
	if t.subs[topic] == nil {
		t.subs[topic] = map[*Subscription]struct{}{}
	}
	t.subs[topic][s] = struct{}{}
	return s, nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	subs := s.table.subs[s.topic]
	delete(subs, s)
	if len(subs) == 0 {
		delete(s.table.subs, s.topic)
	}
}

// Wake receives when there may be something to Poll.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Poll returns the steps that are there, without blocking, and the revision up
// to which nothing else happened to the topic.
func (s *Subscription) Poll() (steps []Step, upTo int64, err error) {
	s.mu.Lock()
	lagging, expired := s.lagging, s.expired
	if !lagging && !expired {
		upTo = s.table.rev.Load()
		steps = s.take(upTo)
	}
	s.mu.Unlock()
	if expired {
		return nil, 0, ErrExpired
	}
	if lagging {
		return s.catchUp()
	}
	return steps, upTo, nil
}

// take removes the steps up to a revision from the queue; s.mu is held. The
// table's revision advances behind the offers, so a step above it may still grow.
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
func (s *Subscription) catchUp() ([]Step, int64, error) {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		return nil, 0, ErrExpired
	}
	missed, ok := s.table.windows[s.topic.window()].after(s.pos)
	if !ok {
		s.expired = true
		return nil, 0, ErrExpired
	}
	more := len(missed) > catchUpSteps
	if more {
		missed = missed[:catchUpSteps]
	}
	var steps []Step
	for _, step := range missed {
		if mine := s.topic.filter(step.Changes); len(mine) > 0 {
			steps = append(steps, Step{Rev: step.Rev, Changes: mine})
		}
	}
	if more {
		s.pos = missed[len(missed)-1].Rev
		s.signal()
		return steps, s.pos, nil
	}
	s.lagging, s.queue, s.pos = false, nil, 0
	return steps, s.table.rev.Load(), nil
}

func (t Topic) filter(changes []Change) []Change {
	var mine []Change
	for _, c := range changes {
		if t.concerns(c) {
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

// offer adds one change of a revision; the table's lock is held. It says
// whether the subscription is to be woken when the revision is complete.
func (s *Subscription) offer(rev int64, c Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.offered != rev
	s.offered = rev
	if s.lagging || s.expired {
		return first
	}
	if n := len(s.queue); n > 0 && s.queue[n-1].Rev == rev {
		s.queue[n-1].Changes = append(s.queue[n-1].Changes, c)
		return first
	}
	if len(s.queue) == queueLimit {
		// What is queued stays undelivered and is read again from the window.
		s.lagging, s.pos, s.queue = true, s.queue[0].Rev-1, nil
		return first
	}
	s.queue = append(s.queue, Step{Rev: rev, Changes: []Change{c}})
	return first
}

// publish records the changes of a revision and offers them to whom they
// concern; wake follows when the revision has been reached.
func (t *Table) publish(rev int64, changes []Change) {
	var parts [windowCount][]Change
	for _, c := range changes {
		w := windowOf(c.Row().Key)
		parts[w] = append(parts[w], c)
		topics(c, func(topic Topic) {
			if topic.window() != w {
				return
			}
			for s := range t.subs[topic] {
				if s.offer(rev, c) {
					t.offered = append(t.offered, s)
				}
			}
		})
	}
	for w, part := range parts {
		if len(part) > 0 {
			t.windows[w].append(Step{Rev: rev, Changes: part})
		}
	}
}

// wake tells the subscribers that were offered something.
func (t *Table) wake() {
	for _, s := range t.offered {
		s.signal()
	}
	clear(t.offered)
	t.offered = t.offered[:0]
}
