package mapper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// An object at the target that proves to be ours, and of which nothing is recorded,
// was written by an agent that has lost its store, or was killed right after. The
// hub's log that this agent follows need not be the one by which it was written: a
// hub that was restored from an older copy knows nothing of what came later, and
// would have it deleted or set back. So such an object is changed or removed only if
// the place in the log that stands at it is one of the hub's log. The hub is asked
// which places are: once for each marker and session, in batches.

const (
	// maxLogs bounds the markers that are known in one session. Each is the start of
	// a hub, unless somebody at the target makes them up: those prove nothing.
	maxLogs = 10_000
	// askAgain is how soon the hub is asked once more about a place in the log that it
	// had not come to.
	askAgain = time.Minute
)

// proof is what is known of the log by which an object at the target was written.
type proof uint8

const (
	// proofUnneeded: the object is recorded or not there, or it is not ours.
	proofUnneeded proof = iota
	// proofGiven: it is the log that the agent follows, or an operator has accepted that.
	proofGiven
	// proofUnasked: the hub has not said yet.
	proofUnasked
	// proofMissing: nothing says that it is.
	proofMissing
	proofs
)

// waits says that nothing may be changed.
func (p proof) waits() bool { return p == proofUnasked || p == proofMissing }

// prover finds out whether the hub's log continues the one by which an object was
// written. It is safe for concurrent use and never waits but in run.
type prover struct {
	hub    *hubClient
	engine *engine
	log    *slog.Logger
	state  *progress
	wake   chan struct{} // one slot

	mu sync.Mutex
	// session is the one that all the rest is about.
	session int
	known   map[string]spans
	ask     map[string]struct{}
	// waiting are identities that were told to wait.
	waiting map[string]struct{}
}

// spans are the revisions of one marker that the hub's log has, as of a revision of it.
type spans struct {
	all  []wire.Revisions
	upTo int64
	at   time.Time
}

func (s spans) has(revision int64) bool {
	return slices.ContainsFunc(s.all, func(r wire.Revisions) bool { return r.Has(revision) })
}

// judge says whether an object of an identity that has a pair may be changed. Who has
// to wait is queued again when that may be another.
func (p *prover) judge(id string, log marks.Pair, now time.Time) proof {
	session, _, accepted := p.state.log()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(session)
	verdict := p.verdict(log, now)
	switch {
	case session == 0:
		verdict = proofUnasked
	case accepted:
		verdict = proofGiven
	}
	if verdict.waits() {
		p.waiting[id] = struct{}{}
	}
	return verdict
}

// turn forgets what another session was told.
func (p *prover) turn(session int) {
	if p.known != nil && p.session == session {
		return
	}
	p.session, p.known, p.ask = session, map[string]spans{}, map[string]struct{}{}
	if p.waiting == nil {
		p.waiting = map[string]struct{}{}
	}
}

func (p *prover) verdict(log marks.Pair, now time.Time) proof {
	if log.IsZero() {
		return proofMissing
	}
	s, ok := p.known[log.Marker()]
	switch {
	case ok && s.has(log.Revision):
		return proofGiven
	case ok && (log.Revision <= s.upTo || now.Sub(s.at) < askAgain):
		return proofMissing
	case !ok && len(p.known)+len(p.ask) >= maxLogs:
		return proofMissing
	}
	p.ask[log.Marker()] = struct{}{}
	raise(p.wake)
	return proofUnasked
}

// lacks says that the hub's log does not have a place, as the hub has said in this
// session. It asks what the hub has not said yet.
func (p *prover) lacks(log marks.Pair, now time.Time) bool {
	session, newest, _ := p.state.log()
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

// again has all looked at that wait: a session has begun, the hub has answered, or
// an operator has accepted its log. It does not wait.
func (p *prover) again() {
	p.mu.Lock()
	ids := make([]string, 0, len(p.waiting))
	for id := range p.waiting {
		ids = append(ids, id)
	}
	clear(p.waiting)
	p.mu.Unlock()
	p.engine.again(ids)
}

// run asks the hub until ctx ends.
func (p *prover) run(ctx context.Context) {
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
			p.log.Info("the hub does not say which logs it continues", "error", err)
			retry.Pause(ctx, retry.Backoff(failures, retry.First, sessionRetry))
		}
	}
}

// inquire asks about all markers that are to be asked about.
func (p *prover) inquire(ctx context.Context) error {
	for {
		session, marker, _ := p.state.log()
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
		answer, err := p.hub.lineage(ctx, marker, ask)
		if err != nil {
			return err
		}
		p.learn(session, ask, answer, time.Now())
	}
}

// learn takes note of an answer.
func (p *prover) learn(session int, ask []string, answer wire.LineageAnswer, now time.Time) {
	p.mu.Lock()
	if p.session == session {
		for _, m := range ask {
			p.known[m] = spans{all: answer.Spans[m], upTo: answer.Revision, at: now}
			delete(p.ask, m)
		}
	}
	p.mu.Unlock()
	p.again()
}

// lineage asks the hub about markers, and about that of the session, which shows that
// the same log answers. A hub that is older than the question proves nothing.
func (h *hubClient) lineage(ctx context.Context, marker string, ask []string) (answer wire.LineageAnswer, err error) {
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

// prove says whether what is there under the identity needs a proof, and has it.
func (r *reconciler) prove(t *turn, seen observed) proof {
	switch {
	case t.record != nil:
		return proofUnneeded
	case seen.presence == present && !seen.unmarked: // by its marks alone
	case seen.presence == foreign && !seen.log.IsZero() && t.adopts(): // a location of this name wrote it
	default:
		return proofUnneeded
	}
	if !seen.log.IsZero() && slices.Contains(t.delivered, seen.log) {
		return proofGiven // the store has the very put by which it was written
	}
	return r.prover.judge(t.id.String(), seen.log, time.Now())
}

// adopts says that a foreign object of the identity is to be taken over.
func (t *turn) adopts() bool {
	w := t.want()
	return w != nil && w.object() != nil && w.object().Policy.Adopt
}

// unprovenWait is the decision about an object that may not be changed.
func unprovenWait(p proof) decision {
	d := decision{proof: p}
	if p == proofMissing {
		d.state, d.reason = wire.Waiting, v1alpha1.ReasonLineageUnproven
		d.message = "the object at the location was written by a log that this hub's does not continue, as far as is known; " +
			"it is left alone until the log is accepted"
	}
	return d
}

// prove takes note of what is known of an item's object.
func (e *engine) prove(it *item, p proof) {
	e.proofs[it.proof]--
	e.proofs[p]++
	it.proof = p
}

// guardedBefore says that the last report of the object that is to go says that this
// waits for a confirmation.
func (t *turn) guardedBefore() bool {
	said := t.before[t.object().Space]
	return t.winner < 0 && said != nil && said.State == wire.Removing && said.Reason == v1alpha1.ReasonPruneGuard
}
