package diagnoser

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
)

const (
	// unhealthyFor is how long an object must be unhealthy before it is diagnosed.
	unhealthyFor = 5 * time.Second
	// firstAgain and maxAgain bound the time until the next diagnosis of an object that is still unhealthy.
	firstAgain, maxAgain = 10 * time.Second, 2 * time.Minute
	// maxQueued is the maximum number of objects in the queue. Others enter it with their next change.
	maxQueued = 5000
)

// subject is an object in the queue, by what was observed of it.
type subject struct {
	id         string
	place      kubeclient.Place
	uid        string
	generation int64
}

// entry is the state of a subject in the queue.
type entry struct {
	subject
	due time.Time
	// again is the time from the last diagnosis to the next one; 0: there was none.
	again time.Duration
}

// queue has the unhealthy objects with the time of their next diagnosis. It is safe for concurrent use.
type queue struct {
	mu  sync.Mutex
	all map[string]*entry
}

// set adds a subject, unless it is in the queue with the same UID and generation.
func (q *queue) set(s subject, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.all[s.id]
	if old != nil && old.uid == s.uid && old.generation == s.generation || old == nil && len(q.all) >= maxQueued {
		return
	}
	q.all[s.id] = &entry{subject: s, due: now.Add(unhealthyFor)}
}

func (q *queue) remove(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, id)
}

// removeSubject removes a subject, unless it was observed with another UID or generation since.
func (q *queue) removeSubject(s subject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.all[s.id]; e != nil && e.subject == s {
		delete(q.all, s.id)
	}
}

// next returns the subject that is due first, and the time until then; ok is false if the queue is empty.
func (q *queue) next(now time.Time) (s subject, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first *entry
	for _, e := range q.all {
		if first == nil || e.due.Before(first.due) || e.due.Equal(first.due) && e.id < first.id {
			first = e
		}
	}
	if first == nil {
		return s, 0, false
	}
	return first.subject, max(0, first.due.Sub(now)), true
}

// done sets the time of the next diagnosis of a subject, if it is still in the queue.
func (q *queue) done(s subject, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.all[s.id]
	if e == nil || e.subject != s {
		return
	}
	e.again = max(firstAgain, min(2*e.again, maxAgain))
	e.due = now.Add(e.again)
}
