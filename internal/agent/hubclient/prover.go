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
	// maxLogs bounds the markers that the hub is asked about in one session. Each is of
	// one start of a hub, unless somebody at the target makes them up.
	maxLogs = 10_000
	// askAgain is how soon the hub is asked again about a place that its log had not
	// reached.
	askAgain = time.Minute
)

// Prover finds out whether the place in the log that an object names is in the hub's log.
// It is safe for concurrent use, and only Run blocks.
type Prover struct {
	Link
	// queue gives identities another turn.
	queue func(ids []string)
	wake  retry.Signal

	mu sync.Mutex
	// session is the number of the session that known and ask are of.
	session int
	known   map[string]spans    // by marker
	ask     map[string]struct{} // markers to ask about
	// waiting are identities that wait for a proof.
	waiting map[string]struct{}
}

// NewProver makes a prover that gives waiting identities another turn by queue.
func NewProver(l Link, queue func(ids []string)) *Prover {
	return &Prover{Link: l, queue: queue, wake: retry.NewSignal()}
}

// spans are the revisions that the hub's log has of one marker, as of its revision upTo.
type spans struct {
	all  []wire.Revisions
	upTo int64
	at   time.Time
}

func (s spans) has(revision int64) bool { return wire.InRanges(s.all, revision) }

// Judge says whether the hub's log has the pair that an object names. If the object has
// to wait, its identity is queued again when the answer may have changed.
func (p *Prover) Judge(id string, log ownership.Pair, now time.Time) ownership.Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, accepted := p.turn()
	verdict := p.verdict(log, now)
	switch {
	case p.session == 0:
		verdict = ownership.Unasked
	case accepted:
		verdict = ownership.Given
	}
	if verdict.Waits() {
		p.waiting[id] = struct{}{}
	}
	return verdict
}

// turn forgets the questions and answers of earlier sessions, and returns the marker of
// the log of the open one, and whether that is accepted. It asks for the session while mu is
// held: who went by an earlier one after others have gone on would forget what they ask.
func (p *Prover) turn() (marker string, accepted bool) {
	session, marker, accepted := p.State.log()
	if p.known != nil && p.session == session {
		return marker, accepted
	}
	p.session, p.known, p.ask = session, map[string]spans{}, map[string]struct{}{}
	if p.waiting == nil {
		p.waiting = map[string]struct{}{}
	}
	return marker, accepted
}

func (p *Prover) verdict(log ownership.Pair, now time.Time) ownership.Proof {
	if log.IsZero() {
		return ownership.Missing
	}
	s, ok := p.known[log.Marker()]
	switch {
	case ok && s.has(log.Revision):
		return ownership.Given
	case ok && (log.Revision <= s.upTo || now.Sub(s.at) < askAgain):
		return ownership.Missing
	case !ok && len(p.known)+len(p.ask) >= maxLogs:
		return ownership.Missing
	}
	p.ask[log.Marker()] = struct{}{}
	p.wake.Raise()
	return ownership.Unasked
}

// Lacks says that, by the hub's answer in this session, its log does not have a place. If
// the hub has not answered, Lacks returns false and has it asked.
func (p *Prover) Lacks(log ownership.Pair, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest, _ := p.turn()
	if p.session == 0 || log.IsZero() {
		return false
	}
	_ = p.verdict(log, now)
	s, said := p.known[log.Marker()]
	// The log can still reach a place only if it is of the newest marker.
	return said && s.upTo > 0 && !s.has(log.Revision) && (log.Revision <= s.upTo || log.Marker() != newest)
}

// Again queues all that wait, since a session has begun, the hub has answered, or an
// operator has accepted its log.
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

// Run asks the hub until ctx ends.
func (p *Prover) Run(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
			err := p.inquire(ctx)
			if err == nil {
				break
			}
			p.Log.Info("the hub could not be asked which logs it continues", "error", err)
			retry.Pause(ctx, retry.Backoff(failures, retry.First, sessionRetry))
		}
	}
}

// inquire asks the hub about all markers in ask.
func (p *Prover) inquire(ctx context.Context) error {
	for {
		p.mu.Lock()
		marker, _ := p.turn()
		session := p.session
		var ask []string
		for m := range p.ask {
			if ask = append(ask, m); len(ask) == wire.MaxMarkers-1 {
				break
			}
		}
		p.mu.Unlock()
		if session == 0 || len(ask) == 0 {
			return nil
		}
		answer, err := p.Client.lineage(ctx, marker, ask)
		if err != nil {
			return err
		}
		p.learn(session, ask, answer, time.Now())
	}
}

// learn notes an answer.
func (p *Prover) learn(session int, ask []string, answer wire.LineageAnswer, now time.Time) {
	p.mu.Lock()
	if p.session == session {
		for _, m := range ask {
			p.known[m] = spans{all: answer.Spans[m], upTo: answer.Revision, at: now}
			delete(p.ask, m)
		}
	}
	p.mu.Unlock()
	p.Again()
}

// lineage asks the hub which revisions of markers its log has. It also asks about the
// session's own marker, which shows that the same log answers. An older hub, which does
// not know the request, proves nothing.
func (h *Client) lineage(ctx context.Context, marker string, ask []string) (answer wire.LineageAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	r, err := h.send(ctx, route.Lineage, func(enc *wire.Encoder) error {
		return enc.Encode(wire.LineageAsk{Markers: append(slices.Clone(ask), marker)})
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
		return answer, fmt.Errorf("lineage: decode answer: %w", err)
	}
	if marker != "" && len(answer.Spans[marker]) == 0 {
		return answer, errors.New("lineage: another hub has answered than that of the session")
	}
	return answer, nil
}
