package controllers

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"orrery.dev/orrery/internal/protocol/key"
)

// The backoff of a key after an error.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
)

// fairKeys holds the waiting keys of a controller. Each space has its turn, so that one with many keys, or with
// expensive ones, does not delay the others. The keys of a space stay in order. Keys that are of no space share one
// turn.
type fairKeys struct {
	spaces map[key.Space][]string
	// order has the spaces with keys, in the order of their turns.
	order []key.Space
	n     int
}

var _ workqueue.Queue[string] = (*fairKeys)(nil)

func newFairKeys() *fairKeys { return &fairKeys{spaces: map[key.Space][]string{}} }

// Touch implements workqueue.Queue. A key that waits keeps its place.
func (*fairKeys) Touch(string) {}

// Push implements workqueue.Queue.
func (f *fairKeys) Push(k string) {
	s, _, _, _ := key.Split(k)
	if len(f.spaces[s]) == 0 {
		f.order = append(f.order, s)
	}
	f.spaces[s] = append(f.spaces[s], k)
	f.n++
}

// Len implements workqueue.Queue.
func (f *fairKeys) Len() int { return f.n }

// Pop implements workqueue.Queue.
func (f *fairKeys) Pop() string {
	s := f.order[0]
	keys := f.spaces[s]
	f.order, f.n = f.order[1:], f.n-1
	if len(keys) == 1 {
		delete(f.spaces, s)
	} else {
		f.spaces[s], f.order = keys[1:], append(f.order, s)
	}
	return keys[0]
}

// newQueue returns an empty queue of keys.
func newQueue() workqueue.TypedRateLimitingInterface[string] {
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: newFairKeys()})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: fair}),
		},
	)
}
