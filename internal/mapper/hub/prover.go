package hub

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

	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxLogs bounds the markers that are known in one session. Each is the start of
	// a hub, unless somebody at the target makes them up: those prove nothing.
	maxLogs = 10_000
	// askAgain is how soon the hub is asked once more about a place in the log that it
	// had not come to.
	askAgain = time.Minute
)

// Prover finds out whether the hub's log continues the one by which an object was
// written. It is safe for concurrent use and never waits but in run.
type Prover struct {
	Link
	// queue has identities looked at again.
	queue func(ids []string)
	wake  retry.Signal

	mu sync.Mutex
	// session is the one that all the rest is about.
	session int
	known   map[string]spans
	ask     map[string]struct{}
	// waiting are identities that were told to wait.
	waiting map[string]struct{}
}

// NewProver has those looked at again, by queue, who had to wait.
func NewProver(l Link, queue func(ids []string)) *Prover {
	return &Prover{Link: l, queue: queue, wake: retry.NewSignal()}
}

// spans are the revisions of one marker that the hub's log has, as of a revision of it.
type spans struct {
	all  []wire.Revisions
	upTo int64
	at   time.Time
}

func (s spans) has(revision int64) bool { return wire.Among(s.all, revision) }

// Judge says whether an object of an identity that has a pair may be changed. Who has
// to wait is queued again when that may be another.
func (p *Prover) Judge(id string, log marks.Pair, now time.Time) marks.Proof {
	session, _, accepted := p.State.log()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(session)
	verdict := p.verdict(log, now)
	switch {
	case session == 0:
		verdict = marks.Unasked
	case accepted:
		verdict = marks.Given
	}
	if verdict.Waits() {
		p.waiting[id] = struct{}{}
	}
	return verdict
}

// turn forgets what another session was told.
func (p *Prover) turn(session int) {
	if p.known != nil && p.session == session {
		return
	}
	p.session, p.known, p.ask = session, map[string]spans{}, map[string]struct{}{}
	if p.waiting == nil {
		p.waiting = map[string]struct{}{}
	}
}

func (p *Prover) verdict(log marks.Pair, now time.Time) marks.Proof {
	if log.IsZero() {
		return marks.Missing
	}
	s, ok := p.known[log.Marker()]
	switch {
	case ok && s.has(log.Revision):
		return marks.Given
	case ok && (log.Revision <= s.upTo || now.Sub(s.at) < askAgain):
		return marks.Missing
	case !ok && len(p.known)+len(p.ask) >= maxLogs:
		return marks.Missing
	}
	p.ask[log.Marker()] = struct{}{}
	p.wake.Raise()
	return marks.Unasked
}

// Lacks says that the hub's log does not have a place, as the hub has said in this
// session. It asks what the hub has not said yet.
func (p *Prover) Lacks(log marks.Pair, now time.Time) bool {
	session, newest, _ := p.State.log()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(session)
	if session == 0 || log.IsZero() {
		return false
	}
	_ = p.verdict(log, now)
	s, said := p.known[log.Marker()]
	// It may yet come to a place of its newest marker only.
	return said && s.upTo > 0 && !s.has(log.Revision) && (log.Revision <= s.upTo || log.Marker() != newest)
}

// Again has all looked at that wait: a session has begun, the hub has answered, or
// an operator has accepted its log. It does not wait.
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
			p.Log.Info("the hub does not say which logs it continues", "error", err)
			retry.Pause(ctx, retry.Backoff(failures, retry.First, sessionRetry))
		}
	}
}

// inquire asks about all markers that are to be asked about.
func (p *Prover) inquire(ctx context.Context) error {
	for {
		session, marker, _ := p.State.log()
		p.mu.Lock()
		p.turn(session)
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

// learn takes note of an answer.
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

// lineage asks the hub about markers, and about that of the session, which shows that
// the same log answers. A hub that is older than the question proves nothing.
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
		return answer, errors.New("lineage: another hub answers than that of the session")
	}
	return answer, nil
}
