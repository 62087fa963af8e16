// Package fairqueue shares what the hub can do at once, or per second, between flows such
// as spaces and locations: a flow that asks without pause waits for itself, and does
// not hold up the others.
//
// It must never know what the work is.
package fairqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Queue bounds how many requests are worked on at once. Each holds a turn, and turns
// are shared between flows, such as spaces: the requests of a busy flow wait for each
// other, while a flow that asks now and then gets the next free turn. It is safe for
// concurrent use.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	working int
	waiting int
	refused int
	flows   map[string]*flow
	// ring holds the flows with waiting requests, the next one to be served first.
	ring []*flow
}

// QueueConfig sizes a Queue.
type QueueConfig struct {
	// Limit is how many requests are worked on at once.
	Limit int
	// Share is how many of them may be of one flow, so that another flow need not
	// wait for one of them to end.
	Share int
	// Queue is how many requests of one flow may wait.
	Queue int
	// Patience is how long a request waits at most.
	Patience time.Duration
}

// flow holds the requests of one name.
type flow struct {
	name    string
	working int
	waiting []chan struct{}
}

// Defaults is the configuration for limit requests at once, of which one flow may have
// three quarters.
func Defaults(limit int) QueueConfig {
	const (
		patience = 15 * time.Second
		queue    = 4 // times what may be worked on
	)
	return QueueConfig{Limit: limit, Share: max(1, limit*3/4), Queue: queue * limit, Patience: patience}
}

// NewQueue makes a Queue.
func NewQueue(config QueueConfig) *Queue {
	return &Queue{config: config, flows: map[string]*flow{}}
}

// Enter waits for a turn of the named flow; leave gives it back. The error is a
// TooManyRequests for the client, or the context's.
func (q *Queue) Enter(ctx context.Context, name string) (leave func(), err error) {
	f, granted, err := q.ask(name)
	if err != nil {
		return nil, err
	}
	leave = func() { q.leave(f) }
	select {
	case <-granted:
		return leave, nil
	default:
	}
	patience := time.NewTimer(q.config.Patience)
	defer patience.Stop()
	select {
	case <-granted:
		return leave, nil
	case <-patience.C:
		err = busy(name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if q.giveUp(f, granted) {
		return nil, err
	}
	return leave, nil // the turn came at the same moment
}

// Try is Enter without waiting, for requests whose body is already being sent: while
// nobody reads it, it blocks the other requests of its connection.
func (q *Queue) Try(name string) (leave func(), err error) {
	f, granted, err := q.ask(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-granted:
	default:
		if q.giveUp(f, granted) {
			return nil, busy(name)
		}
	}
	return func() { q.leave(f) }, nil
}

func busy(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the hub has too many requests for %s to work on, please try again later", name), 1)
}

// ask takes a place in the queue of a flow; the channel is closed when the request
// gets its turn.
func (q *Queue) ask(name string) (*flow, chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.flows[name]
	if f == nil {
		f = &flow{name: name}
		q.flows[name] = f
	}
	if len(f.waiting) >= q.config.Queue {
		q.refused++
		return nil, nil, busy(name)
	}
	granted := make(chan struct{})
	if len(f.waiting) == 0 {
		q.ring = append(q.ring, f)
	}
	f.waiting = append(f.waiting, granted)
	q.waiting++
	q.grant()
	return f, granted, nil
}

// giveUp takes a request out of the queue; it returns false if the request already
// has its turn.
func (q *Queue) giveUp(f *flow, granted chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(f.waiting, granted)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	q.waiting--
	q.refused++
	if len(f.waiting) == 0 {
		q.ring = slices.DeleteFunc(q.ring, func(other *flow) bool { return other == f })
	}
	q.forget(f)
	return true
}

func (q *Queue) leave(f *flow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working--
	f.working--
	q.grant()
	q.forget(f)
}

// grant gives free turns, flow by flow.
func (q *Queue) grant() {
	for q.working < q.config.Limit {
		i := slices.IndexFunc(q.ring, func(f *flow) bool { return f.working < q.config.Share })
		if i < 0 {
			return
		}
		f := q.ring[i]
		q.ring = slices.Delete(q.ring, i, i+1)
		close(f.waiting[0])
		f.waiting = f.waiting[1:]
		q.waiting--
		f.working++
		q.working++
		if len(f.waiting) > 0 {
			q.ring = append(q.ring, f)
		}
	}
}

func (q *Queue) forget(f *flow) {
	if f.working == 0 && len(f.waiting) == 0 {
		delete(q.flows, f.name)
	}
}

// Load returns how many requests are being worked on, wait now, and were refused so far.
func (q *Queue) Load() (working, waiting, refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working, q.waiting, q.refused
}
