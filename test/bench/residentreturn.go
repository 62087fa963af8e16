package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// stayAway waits until the agent may come back, and forgets what it is to forget.
func (k *resident) stayAway(ctx context.Context) {
	k.mu.Lock()
	away, forgets := k.away, k.forgets
	k.away, k.forgets = nil, false
	k.mu.Unlock()
	if forgets {
		k.lastReported, k.content = k.content, map[string]wire.Sum{}
		k.root, k.revision, k.marker = wire.Sum{}, 0, ""
	}
	if away != nil {
		select {
		case <-away:
		case <-ctx.Done():
		}
	}
}

// walk compares the location's content with the desired content by the hub, and fetches the differences. It
// reports objects that it had not reported before, like an agent that knows its earlier reports from its store
// or from the hub.
func (k *resident) walk(ctx context.Context) error {
	lastReported := k.lastReported
	if lastReported == nil {
		lastReported = make(map[string]wire.Sum, len(k.content))
		maps.Copy(lastReported, k.content)
	}
	_, from, err := k.Walk(ctx, k.content, func(f wire.Frame) {
		switch {
		case f.Put == nil:
		case lastReported[f.Put.Key] == k.content[f.Put.Key]:
			k.home.sent.Add(1)
		default:
			k.arrived(ctx, f.Put, time.Now())
		}
	})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	for key := range lastReported {
		if _, exists := k.content[key]; !exists {
			delete(k.reported, key)
			k.queue(ctx, wire.ReportLine{Key: key, Removed: true})
		}
	}
	k.lastReported = nil
	k.root, k.revision, k.marker = protocol.Holding(k.content).Root(), from.Revision, from.Marker
	return errWalked
}
