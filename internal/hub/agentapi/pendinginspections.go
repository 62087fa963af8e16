package agentapi

import (
	"crypto/rand"
	"sync"
	"time"

	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxInspections limits the concurrent inspect requests, maxAgentInspections those to one
	// agent, and maxQueuedInspections those that wait for one agent. Each takes a few times
	// wire.MaxInspectResponse in memory.
	maxInspections       = 32
	maxAgentInspections  = 2
	maxQueuedInspections = 8
	inspectQueueTimeout  = 10 * time.Second
)

// inspections are the pending inspect requests to agents.
type inspections struct {
	queue *fairqueue.Queue

	mu      sync.Mutex
	waiting map[string]*pendingInspection // by ID
}

// pendingInspection is an inspect request to the agent of one location.
type pendingInspection struct {
	location key.Location
	// answered receives the body of the response.
	answered chan []byte
}

func newInspections(timeout time.Duration) *inspections {
	return &inspections{
		queue:   fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxInspections, Share: maxAgentInspections, Queue: maxQueuedInspections, Timeout: timeout}),
		waiting: map[string]*pendingInspection{},
	}
}

// expect adds an inspect request with a new ID. The caller must call forget.
func (k *inspections) expect(l key.Location) (id string, answered <-chan []byte, forget func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id = rand.Text()
	w := &pendingInspection{location: l, answered: make(chan []byte, 1)}
	k.waiting[id] = w
	return id, w.answered, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, id)
	}
}

// claim removes and returns the request that a location answers, or nil.
func (k *inspections) claim(l key.Location, id string) *pendingInspection {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.waiting[id]
	if w == nil || w.location != l {
		return nil
	}
	delete(k.waiting, id)
	return w
}

// isPending reports whether a request waits for its response.
func (k *inspections) isPending(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[id] != nil
}
