// Package fairqueue shares what the hub can do at once, or per second, between users, and between
// flows such as spaces and locations: one that asks without pause waits for itself, and does
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

// Flow is what a request belongs to.
type Flow struct {
	// Name is what the request is about, such as a space.
	Name string
	// User is charged for it; empty: the flow itself.
	User string
	// Reserved reports that the request may have the places that are reserved, too.
	Reserved bool
}

// payer is the name under which a flow is charged for.
func (f Flow) payer() string {
	if f.User == "" {
		return "of " + f.Name
	}
	return "user " + f.User
}

// Queue bounds how many requests are worked on at once. Each holds a turn. Turns are shared
// between users first, and between the flows of a user then: the requests of a busy user wait for
// each other, while a user that asks now and then gets the next free turn. It is safe for
// concurrent use.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	working int
	waiting int
	refused int
	users   map[string]*user
	// names has how many requests of each name are worked on, of all users.
	names map[string]int
	// ring holds the users with waiting requests, the next one to be served first.
	ring []*user
}

// QueueConfig sizes a Queue.
type QueueConfig struct {
	// Limit is how many requests are worked on at once.
	Limit int
	// Share is how many of them may be of one user, and of one name, while no other user has any.
	Share int
	// Yields reports that this part shrinks while others have turns, so that some are always free:
	// a user may have no more than Share/(Limit-Share) times what is free.
	Yields bool
	// Reserve is how many of them are for requests that may have reserved places.
	Reserve int
	// Queue is how many requests of one flow of a user may wait. Of all flows of a user, flowsInQueue
	// times as many may.
	Queue int
	// Patience is how long a request waits at most.
	Patience time.Duration
}

// flowsInQueue is how many flows of one user may fill their part of the queue, so that a user's busy space
// does not have its other spaces refused.
const flowsInQueue = 4

// user has the requests that one is charged for.
type user struct {
	name    string
	working int
	waiting int
	// flows are those with waiting requests, the next one to be served first.
	flows []*waiting
}

// waiting are the requests of one user and flow that wait.
type waiting struct {
	flow     Flow
	requests []chan struct{}
}

// Defaults is the configuration for limit requests at once, of which one user, and one flow, may have
// three quarters while no other user has any.
func Defaults(limit int) QueueConfig {
	const (
		patience = 15 * time.Second
		queue    = 4  // times what may be worked on
		reserved = 16 // is the part that is reserved, one in so many
	)
	return QueueConfig{
		Limit: limit, Share: max(1, limit*3/4), Yields: true, Reserve: limit / reserved, Queue: queue * limit, Patience: patience,
	}
}

// NewQueue makes a Queue.
func NewQueue(config QueueConfig) *Queue {
	return &Queue{config: config, users: map[string]*user{}, names: map[string]int{}}
}

// place is one request in a Queue.
type place struct {
	user    *user
	flow    Flow
	granted chan struct{}
}

// Enter waits for a turn of a flow; leave gives it back. The error is a
// TooManyRequests for the client, or the context's.
func (q *Queue) Enter(ctx context.Context, flow Flow) (leave func(), err error) {
	p, err := q.begin(flow)
	if err != nil {
		return nil, err
	}
	leave = func() { q.leave(p) }
	select {
	case <-p.granted:
		return leave, nil
	default:
	}
	patience := time.NewTimer(q.config.Patience)
	defer patience.Stop()
	select {
	case <-p.granted:
		return leave, nil
	case <-patience.C:
		err = busy(flow.Name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if q.giveUp(p) {
		return nil, err
	}
	return leave, nil // the turn came at the same moment
}

// Try is Enter without waiting, for requests whose body is already being sent: while
// nobody reads it, it blocks the other requests of its connection.
func (q *Queue) Try(flow Flow) (leave func(), err error) {
	p, err := q.begin(flow)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.granted:
	default:
		if q.giveUp(p) {
			return nil, busy(flow.Name)
		}
	}
	return func() { q.leave(p) }, nil
}

func busy(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the hub has too many requests for %s to work on, please try again later", name), 1)
}

// begin takes a place in the queue of a flow. Its channel is closed when the request
// gets its turn.
func (q *Queue) begin(flow Flow) (place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.users[flow.payer()]
	if u == nil {
		u = &user{name: flow.payer()}
		q.users[u.name] = u
	}
	i := slices.IndexFunc(u.flows, func(w *waiting) bool { return w.flow == flow })
	if i >= 0 && len(u.flows[i].requests) >= q.config.Queue || u.waiting >= flowsInQueue*q.config.Queue {
		q.refused++
		return place{}, busy(flow.Name)
	}
	p := place{u, flow, make(chan struct{})}
	if u.waiting == 0 {
		q.ring = append(q.ring, u)
	}
	if i < 0 {
		i = len(u.flows)
		u.flows = append(u.flows, &waiting{flow: flow})
	}
	u.flows[i].requests = append(u.flows[i].requests, p.granted)
	u.waiting++
	q.waiting++
	q.grant()
	return p, nil
}

// giveUp takes a request out of the queue; it returns false if the request already
// has its turn.
func (q *Queue) giveUp(p place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := p.user
	j := slices.IndexFunc(u.flows, func(w *waiting) bool { return w.flow == p.flow })
	if j < 0 {
		return false
	}
	w := u.flows[j]
	i := slices.Index(w.requests, p.granted)
	if i < 0 {
		return false
	}
	w.requests = slices.Delete(w.requests, i, i+1)
	if len(w.requests) == 0 {
		u.flows = slices.Delete(u.flows, j, j+1)
	}
	u.waiting--
	q.waiting--
	q.refused++
	if u.waiting == 0 {
		q.ring = slices.DeleteFunc(q.ring, func(other *user) bool { return other == u })
	}
	q.forget(u)
	return true
}

func (q *Queue) leave(p place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working--
	p.user.working--
	if q.names[p.flow.Name]--; q.names[p.flow.Name] == 0 {
		delete(q.names, p.flow.Name)
	}
	q.grant()
	q.forget(p.user)
}

// grant gives free turns, user by user, and flow by flow of each.
func (q *Queue) grant() {
	for q.working < q.config.Limit {
		if !slices.ContainsFunc(q.ring, q.grantTo) {
			return
		}
	}
}

// grantTo gives a user a turn for the next flow that may have one, and moves both behind the
// others; false: there is none.
func (q *Queue) grantTo(u *user) bool {
	i := slices.IndexFunc(u.flows, func(w *waiting) bool { return q.mayHave(w.flow, u) })
	if i < 0 {
		return false
	}
	w := u.flows[i]
	u.flows = slices.Delete(u.flows, i, i+1)
	j := slices.Index(q.ring, u)
	q.ring = slices.Delete(q.ring, j, j+1)
	close(w.requests[0])
	w.requests = w.requests[1:]
	u.waiting--
	q.waiting--
	u.working++
	q.working++
	q.names[w.flow.Name]++
	if len(w.requests) > 0 {
		u.flows = append(u.flows, w)
	}
	if u.waiting > 0 {
		q.ring = append(q.ring, u)
	}
	return true
}

// firstOfName is how many times as many turns as else a name may have for a user that has none yet, so that
// a user is not held up by another one of the same space.
const firstOfName = 4

// mayHave reports whether a user may have one more turn for a flow. For a flow with reserved places it does not
// count how many turns others have for the same name.
func (q *Queue) mayHave(flow Flow, u *user) bool {
	held := q.names[flow.Name]
	if u.working == 0 && q.config.Yields {
		held /= firstOfName
	}
	return q.allows(flow, u.working) && (flow.Reserved || q.allows(flow, held))
}

// allows reports whether a flow may have one more turn of those that are free when its user, or its
// name, has some.
func (q *Queue) allows(flow Flow, held int) bool {
	c := &q.config
	free := c.Limit - q.working
	if !flow.Reserved {
		free -= c.Reserve
	}
	switch {
	case free <= 0 || held >= c.Share:
		return false
	case !c.Yields || held == 0:
		return true
	}
	return held*(c.Limit-c.Share) < c.Share*free
}

func (q *Queue) forget(u *user) {
	if u.working == 0 && u.waiting == 0 {
		delete(q.users, u.name)
	}
}

// Load returns how many requests are being worked on, wait now, and were refused so far.
func (q *Queue) Load() (working, waiting, refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working, q.waiting, q.refused
}
