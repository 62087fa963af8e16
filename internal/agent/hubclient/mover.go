package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// moveFirst and moveRetry are the first and the longest wait before the endpoints that
	// the hub prefers are tried again.
	moveFirst, moveRetry = time.Second, 10 * time.Minute
	// probeTimeout bounds the probe of an endpoint, and maxAnswer the size of its response,
	// in bytes.
	probeTimeout = 30 * time.Second
	maxAnswer    = 1024
)

// errMoved ends a session when the agent changes to another URL of the hub.
var errMoved = errors.New("the agent uses another URL of the hub: connect again")

// Mover changes to the endpoint that the hub prefers, once that responds. While a session is
// open, it probes the preferred endpoints one after the other; the session keeps its endpoint until a
// probe succeeds. Without a session it does nothing, since Session.Run tries all endpoints.
type Mover struct {
	client *Client
}

// NewMover returns a mover for the endpoint of a client.
func NewMover(c *Client) *Mover { return &Mover{c} }

// Run probes the preferred endpoints until ctx ends.
func (m *Mover) Run(ctx context.Context) {
	for ctx.Err() == nil {
		better, failures := m.client.reach.better()
		if len(better) == 0 {
			select {
			case <-m.client.reach.moving:
			case <-ctx.Done():
			}
			continue
		}
		if failures > 1 { // these were probed before
			m.pause(ctx, retry.Backoff(failures-2, moveFirst, moveRetry))
		}
		if err := m.try(ctx, better); err != nil {
			m.client.reach.log.Debug("the endpoints that the hub prefers do not respond", "error", err)
		}
	}
}

// try changes to the first of some endpoints that responds.
func (m *Mover) try(ctx context.Context, all []wire.Endpoint) error {
	var failed []error
	for _, one := range all {
		e, err := usable(one)
		if err == nil {
			err = m.probe(ctx, e)
		}
		if err == nil {
			m.client.reach.move(e)
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// probe checks, over a connection of its own and without a credential, that the hub responds
// at an endpoint.
func (m *Mover) probe(ctx context.Context, e endpoint) error {
	ctx, cancel := context.WithTimeout(withEndpoint(ctx, e), probeTimeout)
	defer cancel()
	conns := &connections{open: map[*connection]struct{}{}}
	defer conns.drop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+route.Readyz, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", m.client.agent)
	resp, err := clientOver(&transport{connections: conns, proxy: m.client.proxy}).Do(r)
	if err != nil {
		return briefError{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get(wire.Header) != wire.ProtocolVersion {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a partial message is better than none
		return fmt.Errorf("%s is not the URL of a hub that is ready: %d %.100q", e.URL, resp.StatusCode, b)
	}
	return nil
}

// pause waits for a time, or until the hub has announced endpoints.
func (m *Mover) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-m.client.reach.moving:
			if m.client.reach.anew() {
				return
			}
		}
	}
}
