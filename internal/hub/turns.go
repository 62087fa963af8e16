package hub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// turns lets a bounded number of requests be worked on at once, and shares them
// between flows, such as spaces: whoever asks without pause waits for turns of
// their own, and a flow that asks now and then gets the next one that is free.
// It is safe for concurrent use.
type turns struct {
	config turnsConfig

	mu      sync.Mutex
	working int
	waiting int
	refused int
	flows   map[string]*flow
	// ring are the flows with requests that wait, the one whose turn is next first.
	ring []*flow
}

// turnsConfig sizes turns.
type turnsConfig struct {
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

// newTurns makes turns for a number of requests at once.
func newTurns(limit int) *turns {
	const (
		patience = 15 * time.Second
		queue    = 4 // times what may be worked on
	)
	return &turns{
		config: turnsConfig{Limit: limit, Share: max(1, limit*3/4), Queue: queue * limit, Patience: patience},
		flows:  map[string]*flow{},
	}
}

// enter waits for a turn of a flow; leave gives it back. The error tells the
// client to come again later, or is the context's.
func (t *turns) enter(ctx context.Context, name string) (leave func(), err error) {
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

// try is enter for who can't wait, as what has begun to be sent: while a body is not
// read, nothing of others gets through its connection.
func (t *turns) try(name string) (leave func(), err error) {
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
func (t *turns) ask(name string) (*flow, chan struct{}, error) {
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
func (t *turns) giveUp(f *flow, granted chan struct{}) bool {
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

func (t *turns) leave(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working--
	f.working--
	t.grant()
	t.forget(f)
}

// grant gives free turns, flow by flow.
func (t *turns) grant() {
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

func (t *turns) forget(f *flow) {
	if f.working == 0 && len(f.waiting) == 0 {
		delete(t.flows, f.name)
	}
}

// load is what is going on: requests worked on, waiting, and refused so far.
func (t *turns) load() (working, waiting, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working, t.waiting, t.refused
}
