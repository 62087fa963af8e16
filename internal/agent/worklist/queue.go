package worklist

import (
	"container/heap"
	"slices"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// queueState is the state of an item in the queue.
type queueState uint8

const (
	idle queueState = iota
	ready
	running
	// again: running, and queued again when that is done.
	again
)

const (
	// overdueAfter is how long items of a priority wait while others are served before they have a
	// share of the workers: one of overdueShare turns.
	overdueAfter = time.Second
	overdueShare = 4
	// failingTurn is the share of items whose last turn failed among those of their kind: one of
	// failingTurn turns, while others are ready.
	failingTurn = 4
)

// queue orders items for the workers: by priority, then round-robin over spaces and,
// within a space, over kinds; first in, first out within a kind, those whose last turn failed apart
// from the others. A priority that has waited for long has a share of the turns. An item is in it at
// most once and has at most one worker. The engine's lock guards it.
type queue struct {
	ready [priorities]level
	// pops counts the turns that were given, and overdue the search for priorities that are overdue.
	pops, overdue uint
	later         laterHeap
	count         int
	// epoch is what times of items count from: just before the first.
	epoch time.Time
}

// timeOf returns a time as items have it: by the monotonic clock, and never zero.
func (q *queue) timeOf(t time.Time) time.Duration {
	if q.epoch.IsZero() {
		q.epoch = t.Add(-1) // before all times that come
	}
	return t.Sub(q.epoch)
}

// level has the ready items of one priority.
type level struct {
	roundRobin[key.Space, roundRobin[*kind, kindLine]]
	count int
	// since is when the first of them came, or when the priority was last served in its order.
	since time.Duration
}

// push makes an item ready. One that has a worker becomes ready when that is done.
func (q *queue) push(it *Item) {
	switch it.queue {
	case idle:
		it.queue, it.when = ready, q.timeOf(time.Now()) // its entry in later is void
		q.count++
		l := &q.ready[it.priority()]
		if l.count == 0 {
			l.since = it.when
		}
		l.count++
		l.lineOf(it.home()).lineOf(it.kind).push(it)
	case running:
		it.queue = again
	case ready, again:
	}
}

// pushAt makes an item ready at a time, unless something else does so earlier.
func (q *queue) pushAt(it *Item, due time.Time) {
	when := q.timeOf(due)
	if it.queue != idle || it.when != 0 && it.when < when {
		return
	}
	it.when = when
	heap.Push(&q.later, laterItem{due: when, item: it})
}

// promote makes ready what is due, and returns when the next item is; false: none waits.
func (q *queue) promote(now time.Time) (next time.Time, some bool) {
	for len(q.later) > 0 {
		first := q.later[0]
		if first.due > q.timeOf(now) {
			return q.epoch.Add(first.due), true
		}
		heap.Pop(&q.later)
		if first.item.queue == idle && first.item.when == first.due {
			q.push(first.item)
		}
	}
	return time.Time{}, false
}

// pop takes the next ready item for whose kind may returns true; nil if there is none. failing is
// true for items whose last turn failed.
func (q *queue) pop(now time.Time, may func(k *kind, failing bool) bool) *Item {
	elapsed := q.timeOf(now)
	if q.pops++; q.pops%overdueShare == 0 {
		for range q.ready {
			q.overdue++
			l := &q.ready[q.overdue%uint(priorities)]
			if l.count == 0 || elapsed-l.since < overdueAfter {
				continue
			}
			if it := q.take(l, may); it != nil {
				return it
			}
		}
	}
	for i := range q.ready {
		if it := q.take(&q.ready[i], may); it != nil {
			q.ready[i].since = elapsed
			return it
		}
	}
	return nil
}

// take takes the next ready item of one priority.
func (q *queue) take(l *level, may func(k *kind, failing bool) bool) (it *Item) {
	l.each(func(_ key.Space, kinds *roundRobin[*kind, kindLine]) (bool, bool) {
		kinds.each(func(k *kind, both *kindLine) (bool, bool) {
			it = both.pop(may(k, false), may(k, true))
			return it != nil, both.empty()
		})
		return it != nil, len(kinds.lines) == 0
	})
	if it != nil {
		it.queue = running
		it.kind.run(it, 1)
		l.count--
		q.count--
	}
	return it
}

// done takes an item back from a worker.
func (q *queue) done(it *Item) {
	previous := it.queue
	it.queue, it.when = idle, 0
	it.kind.run(it, -1)
	if previous == again {
		q.push(it)
	}
}

// roundRobin serves lines round-robin, in the order in which they were made. Empty lines are
// dropped.
type roundRobin[K comparable, L any] struct {
	lines []line[K, L]
	next  int
}

type line[K comparable, L any] struct {
	key  K
	line *L
}

// lineOf finds or makes the line of a key. There are few lines, of spaces and kinds.
func (t *roundRobin[K, L]) lineOf(k K) *L {
	for i := range t.lines {
		if t.lines[i].key == k {
			return t.lines[i].line
		}
	}
	l := new(L)
	t.lines = append(t.lines, line[K, L]{k, l})
	return l
}

// each offers the lines in turn until one has been served. f also returns whether
// the line is empty now.
func (t *roundRobin[K, L]) each(f func(K, *L) (served, empty bool)) {
	for range len(t.lines) {
		if t.next >= len(t.lines) {
			t.next = 0
		}
		served, empty := f(t.lines[t.next].key, t.lines[t.next].line)
		if empty {
			t.lines = slices.Delete(t.lines, t.next, t.next+1)
		} else {
			t.next++
		}
		if served {
			return
		}
	}
}

// kindLine has the ready items of one kind: those whose last turn failed, and the others.
type kindLine struct {
	fresh, failing fifo
	served         uint
}

// push adds an item. It is where it was added until it has had its turn.
func (l *kindLine) push(it *Item) {
	if it.retried = it.failures > 0; it.retried {
		l.failing.push(it)
	} else {
		l.fresh.push(it)
	}
}

func (l *kindLine) empty() bool { return l.fresh.empty() && l.failing.empty() }

// pop takes the next item of those that may have a turn; nil if there is none.
func (l *kindLine) pop(mayFresh, mayFailing bool) (it *Item) {
	mayFresh, mayFailing = mayFresh && !l.fresh.empty(), mayFailing && !l.failing.empty()
	l.served++
	switch {
	case mayFailing && (!mayFresh || l.served%failingTurn == 0):
		return l.failing.pop()
	case mayFresh:
		return l.fresh.pop()
	}
	return nil
}

// fifo is a first-in-first-out list.
type fifo struct {
	items []*Item
	head  int
}

func (f *fifo) push(it *Item) {
	if f.head > len(f.items)/2 { // free what was popped
		f.items = slices.Delete(f.items, 0, f.head)
		f.head = 0
	}
	f.items = append(f.items, it)
}

func (f *fifo) empty() bool { return f.head == len(f.items) }

func (f *fifo) pop() *Item {
	if f.empty() {
		return nil
	}
	it := f.items[f.head]
	f.items[f.head] = nil
	f.head++
	return it
}

type laterItem struct {
	due  time.Duration
	item *Item
}

// laterHeap is a heap by due time. An entry is void if its time is not the item's, or if that is
// not idle.
type laterHeap []laterItem

func (h laterHeap) Len() int           { return len(h) }
func (h laterHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h laterHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laterHeap) Push(x any)        { *h = append(*h, x.(laterItem)) }
func (h *laterHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = laterItem{}
	*h = old[:len(old)-1]
	return last
}
