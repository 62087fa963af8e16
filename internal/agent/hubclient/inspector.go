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
	// maxLooks is how many questions wait, and lookers how many are answered at once. A
	// hub asks a location no more at a time; what comes beyond that is dropped.
	maxLooks = 8
	lookers  = 2
	// lookTimeout bounds an answer, with what it takes at the target.
	lookTimeout = 25 * time.Second
)

// Inspector answers what the hub asks about the target. Nothing waits for it.
type Inspector struct {
	Link
	// look finds an answer.
	look  func(context.Context, wire.Look) wire.Looked
	asked chan wire.Look
}

// NewInspector makes one that answers by look.
func NewInspector(l Link, look func(context.Context, wire.Look) wire.Looked) *Inspector {
	return &Inspector{Link: l, look: look, asked: make(chan wire.Look, maxLooks)}
}

// Asked takes a question. It does not block.
func (l *Inspector) Asked(q wire.Look) {
	select {
	case l.asked <- q:
	default:
		l.Log.Debug("the hub asks more than can be answered", "object", q.Key)
	}
}

// Run answers until ctx ends.
func (l *Inspector) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for range lookers {
		working.Go(func() {
			for {
				select {
				case q := <-l.asked:
					if err := l.answer(ctx, q); err != nil && ctx.Err() == nil {
						l.Log.Debug("what the hub asked could not be answered", "object", q.Key, "error", err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// answer answers one question. If that fails the hub waits no longer than it would anyhow.
func (l *Inspector) answer(ctx context.Context, q wire.Look) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	body, err := json.Marshal(l.look(ctx, q))
	if err != nil {
		return fmt.Errorf("encode what is at the target: %w", err)
	}
	answer, err := l.Client.do(ctx, http.MethodPost, route.Looked, url.Values{"id": {q.ID}}, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answer.Close()
}
