package hubclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxInspectRequests is the length of the queue, and inspectWorkers the number of requests that
	// are answered concurrently. A hub sends no more at a time; further requests are dropped.
	maxInspectRequests = 8
	inspectWorkers     = 2
	// inspectTimeout bounds a request, with its requests to the target.
	inspectTimeout = 25 * time.Second
)

// Inspector answers the inspect requests of the hub. No other part of the agent waits for it.
type Inspector struct {
	Link
	// inspect returns the response to a request.
	inspect func(context.Context, wire.InspectRequest) wire.InspectResponse
	queue   chan wire.InspectRequest
}

// NewInspector returns an Inspector that answers by inspect.
func NewInspector(l Link, inspect func(context.Context, wire.InspectRequest) wire.InspectResponse) *Inspector {
	return &Inspector{Link: l, inspect: inspect, queue: make(chan wire.InspectRequest, maxInspectRequests)}
}

// Enqueue enqueues a request, or drops it if the queue is full. It does not block.
func (l *Inspector) Enqueue(q wire.InspectRequest) {
	select {
	case l.queue <- q:
	default:
		l.Log.Debug("too many inspect requests of the hub; one is dropped", "object", q.Key)
	}
}

// Run answers until ctx ends.
func (l *Inspector) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for range inspectWorkers {
		working.Go(func() {
			for {
				select {
				case q := <-l.queue:
					if err := l.answer(ctx, q); err != nil && ctx.Err() == nil {
						l.Log.Debug("an inspect request of the hub could not be answered", "object", q.Key, "error", err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// answer answers one request. If that fails, the hub waits until its own timeout.
func (l *Inspector) answer(ctx context.Context, q wire.InspectRequest) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	body, err := json.Marshal(l.inspect(ctx, q))
	if err != nil {
		return fmt.Errorf("encode the response to an inspect request: %w", err)
	}
	answer, err := l.Client.do(ctx, http.MethodPost, route.Inspected, url.Values{"id": {q.ID}}, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answer.Close()
}
