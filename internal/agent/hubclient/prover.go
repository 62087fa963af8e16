package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxLogs bounds the markers in the queries of one session. Each belongs to one start of a
	// hub, unless a user of the target forges markers.
	maxLogs = 10_000
	// repeatAfter is the time after which the query about a log position that the hub's log had
	// not reached is repeated.
	repeatAfter = time.Minute
)

// Prover determines whether the hub's log contains the log position that an object names.
// It is safe for concurrent use, and only Run blocks.
type Prover struct {
	Link
	// queue enqueues identities for reconciliation.
	queue func(ids []string)
	wake  retry.Signal

	mu sync.Mutex
	// session is the number of the session to which known and pending belong.
	session int
	known   map[string]spans    // by marker
	pending map[string]struct{} // markers for the next query
	// waiting are identities that wait for a proof.
	waiting map[string]struct{}
}

// NewProver returns a prover that enqueues waiting identities by queue.
func NewProver(l Link, queue func(ids []string)) *Prover {
	return &Prover{Link: l, queue: queue, wake: retry.NewSignal()}
}

// spans are the revisions under one marker that the hub's log contains, at its revision upTo.
type spans struct {
	all      []wire.Revisions
	upTo     int64
	received time.Time
}

func (s spans) contains(revision int64) bool { return wire.InRanges(s.all, revision) }

// Check returns whether the hub's log contains the log position that an object names. If the
// object must wait, its identity is enqueued when the result may have changed.
func (p *Prover) Check(id string, log ownership.Pair, now time.Time) ownership.Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, accepted := p.turn()
	proof := p.proof(log, now)
	switch {
	case p.session == 0:
		proof = ownership.Unasked
	case accepted:
		proof = ownership.Given
	}
	if proof.Waits() {
		p.waiting[id] = struct{}{}
	}
	return proof
}

// turn discards the queries and responses of earlier sessions, and returns the marker of
// the log of the open one, and whether that log is accepted. It reads the session while mu is
// held: a caller with an earlier session would discard the queries of a later one.
func (p *Prover) turn() (marker string, accepted bool) {
	session, marker, accepted := p.State.log()
	if p.known != nil && p.session == session {
		return marker, accepted
	}
	p.session, p.known, p.pending = session, map[string]spans{}, map[string]struct{}{}
	if p.waiting == nil {
		p.waiting = map[string]struct{}{}
	}
	return marker, accepted
}

func (p *Prover) proof(log ownership.Pair, now time.Time) ownership.Proof {
	if log.IsZero() {
		return ownership.Missing
	}
	s, ok := p.known[log.Marker()]
	switch {
	case ok && s.contains(log.Revision):
		return ownership.Given
	case ok && (log.Revision <= s.upTo || now.Sub(s.received) < repeatAfter):
		return ownership.Missing
	case !ok && len(p.known)+len(p.pending) >= maxLogs:
		return ownership.Missing
	}
	p.pending[log.Marker()] = struct{}{}
	p.wake.Raise()
	return ownership.Unasked
}

// Lacks reports whether the hub has responded in this session that its log does not contain a
// log position. Without a response, Lacks returns false and enqueues a query.
func (p *Prover) Lacks(log ownership.Pair, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest, _ := p.turn()
	if p.session == 0 || log.IsZero() {
		return false
	}
	_ = p.proof(log, now)
	s, answered := p.known[log.Marker()]
	// The log can still reach a position only under its newest marker.
	return answered && s.upTo > 0 && !s.contains(log.Revision) && (log.Revision <= s.upTo || log.Marker() != newest)
}

// Again enqueues all waiting identities. It is called when a session has begun, the hub has
// responded, or an operator has accepted its log.
func (p *Prover) Again() {
	p.mu.Lock()
	ids := make([]string, 0, len(p.waiting))
	for id := range p.waiting {
		ids = append(ids, id)
	}
	clear(p.waiting)
	p.mu.Unlock()
	p.queue(ids)
}

// Run sends pending queries until ctx ends.
func (p *Prover) Run(ctx context.Context) {
	p.wake.Run(ctx, p.inquire, func(err error, failures uint8) time.Duration {
		p.Log.Info("the query for proofs of log positions failed, retrying", "error", err)
		return retry.Backoff(failures, retry.First, sessionRetry)
	})
}

// inquire queries the hub about all pending markers.
func (p *Prover) inquire(ctx context.Context) error {
	for {
		p.mu.Lock()
		marker, _ := p.turn()
		session := p.session
		var markers []string
		for m := range p.pending {
			if markers = append(markers, m); len(markers) == wire.MaxMarkers-1 {
				break
			}
		}
		p.mu.Unlock()
		if session == 0 || len(markers) == 0 {
			return nil
		}
		answer, err := p.Client.proofs(ctx, marker, markers)
		if err != nil {
			return err
		}
		p.learn(session, markers, answer, time.Now())
	}
}

// learn records a response.
func (p *Prover) learn(session int, markers []string, answer wire.LogIdentityResponse, now time.Time) {
	p.mu.Lock()
	if p.session == session {
		for _, m := range markers {
			p.known[m] = spans{all: answer.Spans[m], upTo: answer.Revision, received: now}
			delete(p.pending, m)
		}
	}
	p.mu.Unlock()
	p.Again()
}

// proofs queries which revisions under some markers the hub's log contains. The query also has
// the session's own marker, to verify that the response is from the same log. A hub of an older
// version does not serve the request; then nothing is proven.
func (h *Client) proofs(ctx context.Context, marker string, markers []string) (answer wire.LogIdentityResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	r, err := h.send(ctx, route.LogIdentity, func(enc *wire.Encoder) error {
		return enc.Encode(wire.LogIdentityRequest{Markers: append(slices.Clone(markers), marker)})
	})
	var refused *hubError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return answer, nil
	}
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, wire.MaxLine)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("proofs of log positions: decode answer: %w", err)
	}
	if marker != "" && len(answer.Spans[marker]) == 0 {
		return answer, errors.New("proofs of log positions: the response is from another hub than that of the session")
	}
	return answer, nil
}
