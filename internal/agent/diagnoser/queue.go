package diagnoser

import (
	"cmp"
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// pause is the time between two diagnoses, so that there are at most 60 in a minute.
	pause = time.Second
	// unhealthyFor is how long an object must be unhealthy before it is diagnosed.
	unhealthyFor = 5 * time.Second
	// firstAgain and maxAgain bound the time until the next diagnosis of an object that is still unhealthy, in a short
	// queue.
	firstAgain, maxAgain = 10 * time.Second, 2 * time.Minute
	// perRepeat is the time of the diagnoser that the queue allows for each repeated diagnosis. Repeats thus take at most
	// half of the diagnoses, however many objects are unhealthy.
	perRepeat = 2 * pause
	// maxQueued is the maximum number of objects of one space in the queue. Others enter it with their next change.
	maxQueued = 2000
)

// subject is an object in the queue, by what was observed of it.
type subject struct {
	id string
	// space is the space whose turn the diagnosis takes.
	space      key.Space
	place      kubeclient.Place
	uid        string
	generation int64
}

// entry is the state of a subject in the queue.
type entry struct {
	subject
	due time.Time
	// again is the time from the last diagnosis to the next one in a short queue; 0: there was none.
	again time.Duration
}

// queue has the unhealthy objects with the time of their next diagnosis. The spaces with due objects take turns, so that
// the objects of one space delay those of another by one diagnosis at most. It is safe for concurrent use.
type queue struct {
	mu     sync.Mutex
	all    map[string]*entry
	spaces map[key.Space]*share
	// turn is the number of the last turn.
	turn uint64
}

// share is the part of the queue that one space has.
type share struct {
	// objects is the number of its entries.
	objects int
	// turn is the last turn that the space had, or the last one before it entered the queue.
	turn uint64
}

func newQueue() queue { return queue{all: map[string]*entry{}, spaces: map[key.Space]*share{}} }

// set adds a subject, unless it is in the queue with the same UID and generation, or its space has the maximum number of
// objects there.
func (q *queue) set(s subject, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.all[s.id]
	if old != nil && old.uid == s.uid && old.generation == s.generation && old.space == s.space {
		return
	}
	q.delete(s.id)
	used := q.spaces[s.space]
	if used == nil {
		used = &share{turn: q.turn}
		q.spaces[s.space] = used
	}
	if used.objects >= maxQueued {
		return
	}
	used.objects++
	q.all[s.id] = &entry{subject: s, due: now.Add(unhealthyFor)}
}

// delete removes an entry. The caller holds the lock.
func (q *queue) delete(id string) {
	e := q.all[id]
	if e == nil {
		return
	}
	delete(q.all, id)
	used := q.spaces[e.space]
	if used.objects--; used.objects == 0 {
		delete(q.spaces, e.space)
	}
}

func (q *queue) remove(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delete(id)
}

// removeSubject removes a subject, unless it was observed with another UID or generation since.
func (q *queue) removeSubject(s subject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.all[s.id]; e != nil && e.subject == s {
		q.delete(s.id)
	}
}

// next returns the subject to diagnose next, and the time until it is due; ok is false if the queue is empty. If it is
// due now, its space has had its turn.
func (q *queue) next(now time.Time) (s subject, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first *entry
	for _, e := range q.all {
		if first == nil || q.compare(e, first, now) < 0 {
			first = e
		}
	}
	if first == nil {
		return s, 0, false
	}
	if wait = max(0, first.due.Sub(now)); wait == 0 {
		q.turn++
		q.spaces[first.space].turn = q.turn
	}
	return first.subject, wait, true
}

// compare orders entries: those that are due before others, then by the turns of their spaces, and in one space those
// without a diagnosis before repeats. The caller holds the lock.
func (q *queue) compare(a, b *entry, now time.Time) int {
	isDue := !a.due.After(now)
	if other := !b.due.After(now); isDue != other || !isDue {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	}
	return cmp.Or(
		cmp.Compare(q.spaces[a.space].turn, q.spaces[b.space].turn), cmp.Compare(a.space, b.space),
		cmp.Compare(min(a.again, 1), min(b.again, 1)), a.due.Compare(b.due), cmp.Compare(a.id, b.id),
	)
}

// done sets the time of the next diagnosis of a subject, if it is still in the queue. The interval grows with the number
// of objects of its space, of which each has the same part of the time for repeats.
func (q *queue) done(s subject, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.all[s.id]
	if e == nil || e.subject != s {
		return
	}
	e.again = max(firstAgain, min(2*e.again, maxAgain))
	load := time.Duration(q.spaces[s.space].objects) * time.Duration(len(q.spaces)) * perRepeat
	e.due = now.Add(max(e.again, load))
}
