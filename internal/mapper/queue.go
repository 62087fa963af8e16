package mapper

import (
	"container/heap"
	"time"
)

// queueState is where an item is.
type queueState uint8

const (
	idle queueState = iota
	ready
	running
	// again: running, and to be looked at once more after that.
	again
)

// queue orders items for the workers: by priority, then first come, first
// served. An item is in it at most once and with one worker at most. It is
// guarded by the engine's lock.
type queue struct {
	ready [priorities]fifo
	later laterHeap
	count int
}

// push makes an item ready; one that a worker has comes back when that is done.
func (q *queue) push(it *item) {
	it.due = time.Time{} // whatever it waited for, it need not any more
	switch it.queue {
	case idle:
		it.queue = ready
		q.count++
		q.ready[it.priority()].push(it)
	case running:
		it.queue = again
	case ready, again:
	}
}

// pushAt makes an item ready at a time, unless something else does so earlier.
func (q *queue) pushAt(it *item, due time.Time) {
	if it.queue != idle || !it.due.IsZero() && it.due.Before(due) {
		return
	}
	it.due = due
	heap.Push(&q.later, laterItem{due: due, item: it})
}

// promote makes ready what is due, and returns when the next item will be.
func (q *queue) promote(now time.Time) (next time.Time, some bool) {
	for len(q.later) > 0 {
		first := q.later[0]
		if first.due.After(now) {
			return first.due, true
		}
		heap.Pop(&q.later)
		if first.item.due.Equal(first.due) {
			q.push(first.item)
		}
	}
	return time.Time{}, false
}

// pop takes the next ready item; nil if there is none.
func (q *queue) pop() *item {
	for i := range q.ready {
		if it := q.ready[i].pop(); it != nil {
			it.queue = running
			q.count--
			return it
		}
	}
	return nil
}

// done takes an item back from a worker.
func (q *queue) done(it *item) {
	was := it.queue
	it.queue = idle
	if was == again {
		q.push(it)
	}
}

// fifo is a first-in-first-out list.
type fifo struct {
	items []*item
	head  int
}

func (f *fifo) push(it *item) { f.items = append(f.items, it) }

func (f *fifo) pop() *item {
	if f.head == len(f.items) {
		return nil
	}
	it := f.items[f.head]
	f.items[f.head] = nil
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = nil, 0 // a burst leaves no memory behind
	}
	return it
}

type laterItem struct {
	due  time.Time
	item *item
}

// laterHeap is a heap by due time. An entry whose time is not the item's own any
// more is void.
type laterHeap []laterItem

func (h laterHeap) Len() int           { return len(h) }
func (h laterHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h laterHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laterHeap) Push(x any)        { *h = append(*h, x.(laterItem)) }
func (h *laterHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = laterItem{}
	*h = old[:len(old)-1]
	return last
}
