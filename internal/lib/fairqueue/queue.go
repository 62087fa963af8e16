// Package fairqueue divides the capacity of the hub, concurrent or per second, between users, and
// between flows such as spaces and locations. A flow that sends requests without pause delays only
// itself.
//
// The package must not depend on the kind of work.
package fairqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Flow identifies the flow of a request.
type Flow struct {
	// Name is the subject of the request, such as a space.
	Name string
	// User is the user that is charged for the request; empty for the flow itself.
	User string
	// Reserved reports whether the request may also use reserved turns.
	Reserved bool
}

// payer returns the name that is charged for a flow.
func (f Flow) payer() string {
	if f.User == "" {
		return "of " + f.Name
	}
	return "user " + f.User
}

// Queue limits the number of concurrent requests. Each running request has a turn. Turns are
// divided first between users, and then between the flows of a user. The requests of a busy user
// wait for each other, while a user with few requests gets the next free turn. It is safe for
// concurrent use.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	working int
	waiting int
	refused int
	users   map[string]*user
	// names counts running requests by name, for all users.
	names map[string]int
	// ring contains the users with waiting requests, in the order in which they are served.
	ring []*user
}

// QueueConfig configures a Queue.
type QueueConfig struct {
	// Limit is the maximum number of concurrent requests.
	Limit int
	// Share is how many of them one user, or one name, may have while no other user has any.
	Share int
	// Yields makes this share smaller while others have turns, so that some turns are always free:
	// a user may have at most Share/(Limit-Share) times the number of free turns.
	Yields bool
	// Reserve is the number of turns that only Reserved requests may use.
	Reserve int
	// Queue is the maximum number of waiting requests of one flow of a user. All flows of a user
	// together may have flowsInQueue times as many.
	Queue int
	// Timeout is the maximum time that a request waits.
	Timeout time.Duration
}

// flowsInQueue is how many flows of one user may fill their part of the queue. A busy space of a
// user thus does not block the user's other spaces.
const flowsInQueue = 4

// user contains the requests for which one user is charged.
type user struct {
	name    string
	working int
	waiting int
	// flows are the flows with waiting requests, in the order in which they are served.
	flows []*waiting
}

// waiting contains the waiting requests of one user and flow.
type waiting struct {
	flow     Flow
	requests []chan struct{}
}

// Defaults returns the configuration for limit concurrent requests. One user, and one flow, may
// have three quarters of them while no other user has any.
func Defaults(limit int) QueueConfig {
	const (
		timeout  = 15 * time.Second
		queue    = 4  // waiting requests per concurrent one
		reserved = 16 // one of this many turns is reserved
	)
	return QueueConfig{
		Limit: limit, Share: max(1, limit*3/4), Yields: true, Reserve: limit / reserved, Queue: queue * limit, Timeout: timeout,
	}
}

// NewQueue returns a Queue.
func NewQueue(config QueueConfig) *Queue {
	return &Queue{config: config, users: map[string]*user{}, names: map[string]int{}}
}

// place is the position of one request in a Queue.
type place struct {
	user    *user
	flow    Flow
	granted chan struct{}
}

// Enter waits for a turn for a flow; leave returns it. The error is a TooManyRequests for the
// client, or the error of the context.
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
	timer := time.NewTimer(q.config.Timeout)
	defer timer.Stop()
	select {
	case <-p.granted:
		return leave, nil
	case <-timer.C:
		err = busy(flow.Name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if q.giveUp(p) {
		return nil, err
	}
	return leave, nil // the turn was granted at the same time
}

// Try is Enter without waiting. It is for requests whose body is already being sent: an unread body
// blocks all other requests of its connection.
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

// begin adds a request to the queue of a flow. The channel of the place is closed when the request
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

// giveUp removes a request from the queue. It returns false if the request already has its turn.
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

// grant grants free turns, user by user, and flow by flow for each user.
func (q *Queue) grant() {
	for q.working < q.config.Limit {
		if !slices.ContainsFunc(q.ring, q.grantTo) {
			return
		}
	}
}

// grantTo grants a turn to the user's next flow that may have one, and moves both to the end of
// their rings. It returns false if there is no such flow.
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

// A user without turns may have firstOfName times as many turns for a name as otherwise. Another
// user of the same space thus does not block this one.
const firstOfName = 4

// mayHave reports whether a user may have one more turn for a flow. For a flow with reserved turns,
// it ignores the turns of other users for the same name.
func (q *Queue) mayHave(flow Flow, u *user) bool {
	held := q.names[flow.Name]
	if u.working == 0 && q.config.Yields {
		held /= firstOfName
	}
	return q.allows(flow, u.working) && (flow.Reserved || q.allows(flow, held))
}

// allows reports whether a flow may have one more free turn when its user, or its name, already has
// held turns.
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

// Load returns how many requests are running and waiting, and how many were refused so far.
func (q *Queue) Load() (working, waiting, refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working, q.waiting, q.refused
}
