package summaries

import "time"

// queue holds the keys of changes in the order in which they came, each once: a key that changes again
// while it waits keeps its place. The zero queue is empty.
type queue struct {
	keys    []waiting
	present map[string]struct{}
}

// waiting is a key in a queue.
type waiting struct {
	key string
	// since is a time before which the key had not changed.
	since time.Time
}

// push adds a key unless it waits already.
func (q *queue) push(key string, since time.Time) {
	if _, ok := q.present[key]; ok {
		return
	}
	if q.present == nil {
		q.present = map[string]struct{}{}
	}
	q.present[key] = struct{}{}
	q.keys = append(q.keys, waiting{key, since})
}

// pop removes the first key. The queue must not be empty.
func (q *queue) pop() waiting {
	first := q.keys[0]
	q.keys[0] = waiting{}
	q.keys = q.keys[1:]
	if delete(q.present, first.key); len(q.present) == 0 {
		*q = queue{}
	}
	return first
}

// first returns the first key; ok is false if there is none.
func (q *queue) first() (w waiting, ok bool) {
	if len(q.keys) == 0 {
		return w, false
	}
	return q.keys[0], true
}
