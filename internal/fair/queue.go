// Package fair shares what the hub can do at once, or in a second, between many who
// ask for it, such as spaces and locations: whoever asks without pause waits for their
// own, and not for others.
//
// It must never know what is done.
package fair

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Queue lets a bounded number of requests be worked on at once, and shares them
// between flows, such as spaces: whoever asks without pause waits for turns of
// their own, and a flow that asks now and then gets the next one that is free.
// It is safe for concurrent use.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	working int
	waiting int
	refused int
	flows   map[string]*flow
	// ring are the flows with requests that wait, the one whose turn is next first.
	ring []*flow
}

// QueueConfig sizes a Queue.
type QueueConfig struct {
	// Limit is how many requests are worked on at once.
	Limit int
	// Share is how many of them may be of one flow, so that another one need not
	// even wait for the first to end.
	Share int
	// Queue is how many requests of one flow may wait.
	Queue int
	// Patience is how long a request waits at most.
	Patience time.Duration
}

// flow is what is being asked under one name.
type flow struct {
	name    string
	working int
	waiting []chan struct{}
}

// Defaults are for a number of requests at once, of which one flow may have three quarters.
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

// Enter waits for a turn of a flow; leave gives it back. The error tells the
// client to come again later, or is the context's.
func (t *Queue) Enter(ctx context.Context, name string) (leave func(), err error) {
	f, granted, err := t.ask(name)
	if err != nil {
		return nil, err
	}
	leave = func() { t.leave(f) }
	select {
	case <-granted:
		return leave, nil
	default:
	}
	patience := time.NewTimer(t.config.Patience)
	defer patience.Stop()
	select {
	case <-granted:
		return leave, nil
	case <-patience.C:
		err = busy(name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if t.giveUp(f, granted) {
		return nil, err
	}
	return leave, nil // the turn came at the same moment
}

// Try is Enter for who can't wait, as what has begun to be sent: while a body is not
// read, nothing of others gets through its connection.
func (t *Queue) Try(name string) (leave func(), err error) {
	f, granted, err := t.ask(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-granted:
	default:
		if t.giveUp(f, granted) {
			return nil, busy(name)
		}
	}
	return func() { t.leave(f) }, nil
}

func busy(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the hub has too many requests for %s to work on, please try again later", name), 1)
}

// ask takes a place in the queue of a flow; the channel is closed when its turn
// has come.
func (t *Queue) ask(name string) (*flow, chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flows[name]
	if f == nil {
		f = &flow{name: name}
		t.flows[name] = f
	}
	if len(f.waiting) >= t.config.Queue {
		t.refused++
		return nil, nil, busy(name)
	}
	granted := make(chan struct{})
	if len(f.waiting) == 0 {
		t.ring = append(t.ring, f)
	}
	f.waiting = append(f.waiting, granted)
	t.waiting++
	t.grant()
	return f, granted, nil
}

// giveUp takes a request out of the queue; false if its turn has come.
func (t *Queue) giveUp(f *flow, granted chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(f.waiting, granted)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	t.waiting--
	t.refused++
	if len(f.waiting) == 0 {
		t.ring = slices.DeleteFunc(t.ring, func(other *flow) bool { return other == f })
	}
	t.forget(f)
	return true
}

func (t *Queue) leave(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working--
	f.working--
	t.grant()
	t.forget(f)
}

// grant gives free turns, flow by flow.
func (t *Queue) grant() {
	for t.working < t.config.Limit {
		i := slices.IndexFunc(t.ring, func(f *flow) bool { return f.working < t.config.Share })
		if i < 0 {
			return
		}
		f := t.ring[i]
		t.ring = slices.Delete(t.ring, i, i+1)
		close(f.waiting[0])
		f.waiting = f.waiting[1:]
		t.waiting--
		f.working++
		t.working++
		if len(f.waiting) > 0 {
			t.ring = append(t.ring, f)
		}
	}
}

func (t *Queue) forget(f *flow) {
	if f.working == 0 && len(f.waiting) == 0 {
		delete(t.flows, f.name)
	}
}

// Load is what is going on: requests worked on, waiting, and refused so far.
func (t *Queue) Load() (working, waiting, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working, t.waiting, t.refused
}
