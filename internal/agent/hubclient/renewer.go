package hubclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/credential"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// renewRetry is the longest wait before a request for a credential is repeated, and
	// refusedRetry the wait after a rejection, which an operator may revoke.
	renewRetry   = time.Minute
	refusedRetry = 10 * time.Minute
	// renewPause is the minimum time between two renewals: hubs whose clocks or authorities
	// differ could otherwise request one renewal after the other.
	renewPause = 10 * time.Second
	// renewSpread is the time over which the renewals are spread that the hub requests from
	// all agents at once; at most the time between two renewals divided by renewSpreadPart.
	renewSpread     = 10 * time.Second
	renewSpreadPart = 100
	// oneTime is the prefix of join tokens that can be used once. Tokens of an older version can
	// be used permanently, and are exchanged for a credential if the hub supports that.
	oneTime = "orr_j_"
)

// Renewer obtains the client's credential with the join token, and renews it.
type Renewer struct {
	client *Client
	keeper *credential.Keeper
	store  *store.Store
	state  *State
	log    *slog.Logger
	// given reports whether the join token was given for this start: then its rejection is
	// an error even if there is an earlier credential.
	given bool
	// tried is closed after the first attempt to join, or if none is needed.
	tried chan struct{}
	// taken is the time at which this process last obtained a credential.
	taken     time.Time
	closeOnce func()
}

// NewRenewer returns a Renewer for the credential of a keeper, which the client of the link
// uses. Errors of joining are recorded in the link's state.
func NewRenewer(link Link, k *credential.Keeper, given bool) (*Renewer, error) {
	r := &Renewer{client: link.Client, keeper: k, store: link.Store, state: link.State, log: link.Log, given: given, tried: make(chan struct{})}
	r.closeOnce = sync.OnceFunc(func() { close(r.tried) })
	if id := k.Current(); id != nil {
		return r, r.use(id)
	}
	return r, nil
}

// Tried returns a channel that is closed when the agent has joined, or has failed once.
func (r *Renewer) Tried() <-chan struct{} { return r.tried }

// use makes the client use a credential.
func (r *Renewer) use(id *credential.Identity) error {
	l, err := r.client.newLine(id)
	if err != nil {
		return err
	}
	r.client.lines.replace(l)
	return nil
}

// Run joins unless the agent has joined before, and renews the credential until ctx ends. It
// returns an error if the hub rejects the join token.
func (r *Renewer) Run(ctx context.Context) error {
	token := r.client.join.Token
	if !r.keeper.JoinedBy(token) {
		if err := r.join(ctx, token); err != nil || ctx.Err() != nil {
			return err
		}
	}
	r.closeOnce()
	for id := r.keeper.Current(); id != nil && r.await(ctx, id) && !r.isSuperseded(id); id = r.keeper.Current() {
		r.renew(ctx, id)
	}
	<-ctx.Done()
	return nil
}

// join requests a credential until it has one.
func (r *Renewer) join(ctx context.Context, token string) error {
	lasting := !strings.HasPrefix(token, oneTime)
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		err := r.obtain(ctx, route.Enrol, token, func(request []byte) (any, error) { return wire.Enrol{Request: request}, nil })
		if err == nil {
			r.log.Info("joined the hub", "hub", r.client.join.Hub)
			return nil
		}
		wait := max(retry.Backoff(failures, retry.First, renewRetry), asksToWait(err))
		refused, answered := errors.AsType[*hubError](err)
		switch {
		case lasting && answered && (refused.refusal != "" || slices.Contains([]int{http.StatusForbidden, http.StatusNotFound}, refused.code)):
			// The hub is of an older version, or the token is no longer valid. A session with the
			// token shows which.
			if r.keeper.Current() == nil {
				r.lasting(token)
			}
			wait = refusedRetry
		case answered && refused.refusal != "" && (r.given || r.keeper.Current() == nil):
			return &JoinError{err}
		case answered && refused.refusal != "":
			r.log.Error("the hub rejects the join token; the agent continues with its earlier credential", "error", err)
			return nil
		}
		r.state.failed(err)
		r.closeOnce()
		r.log.Warn("the agent could not join the hub yet", "error", err, "retry", wait)
		r.pause(ctx, wait)
	}
	return nil
}

// JoinError is returned when the hub rejects the join token.
type JoinError struct{ err error }

func (e *JoinError) Error() string {
	return fmt.Sprintf("join the hub: %v; create another token with: orrery location token NAME", e.err)
}

// Unwrap returns the response of the hub.
func (e *JoinError) Unwrap() error { return e.err }

// lasting makes the client use a token of an older version as its credential.
func (r *Renewer) lasting(token string) {
	l, err := r.client.newLine(nil)
	if err != nil { // without a credential nothing is signed
		panic(err)
	}
	l.token = token
	r.client.lines.replace(l)
}

// pause waits for a time, or until the hub requests a renewal; early reports the latter.
func (r *Renewer) pause(ctx context.Context, wait time.Duration) (early bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.client.renew:
		return true
	case <-ctx.Done():
	}
	return false
}

// await waits until a credential must be renewed: when the hub requests that, or after the
// credential's RenewAfter. It returns false when ctx has ended.
func (r *Renewer) await(ctx context.Context, id *credential.Identity) bool {
	if !r.taken.IsZero() {
		retry.Pause(ctx, min(renewPause, id.RenewAfter/4)-time.Since(r.taken))
	}
	const jitter = 10
	wait := id.Due(time.Now())
	// Spread the renewals of agents that joined at the same time, or that the hub has requested
	// at the same time.
	if r.pause(ctx, wait-rand.N(wait/jitter+1)) {
		retry.Pause(ctx, rand.N(min(renewSpread, id.RenewAfter/renewSpreadPart)+1))
	}
	return ctx.Err() == nil
}

// renew requests the next credential until it has it.
func (r *Renewer) renew(ctx context.Context, id *credential.Identity) {
	call := route.Agent(key.Location(r.client.join.Location)).Path(route.Renew)
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		err := r.obtain(ctx, call, "", func(request []byte) (any, error) { return id.Renewal(request) })
		if err == nil {
			r.log.Info("the credential was renewed", "until", r.keeper.Current().Ends())
			return
		}
		wait := max(retry.Backoff(failures, retry.First, renewRetry), asksToWait(err))
		if supersedes(err) { // a permanent error
			r.log.Error("the hub does not renew the agent's credential, since another agent has joined the location", "error", err)
			<-ctx.Done()
			return
		}
		if locksOut(err) {
			r.log.Error("the hub does not renew the agent's credential; the cluster stays as it is", "error", err)
			r.pause(ctx, refusedRetry) // or until the hub rejects a session since the credential has expired
			continue
		}
		r.log.Warn("the credential could not be renewed yet", "error", err, "until", id.Ends(), "retry", wait)
		retry.Pause(ctx, wait)
	}
}

// locksOut reports whether the hub will not authenticate the agent with its credential again.
func locksOut(err error) bool {
	refused, ok := errors.AsType[*hubError](err)
	return ok && refused.refusal != "" && refused.refusal != wire.RefusedNone && refused.refusal != wire.RefusedExpired
}

// isSuperseded reports whether the hub has rejected a credential before, since another agent has joined
// the location. A hub that was restored from an older copy might renew it, so it is not asked again.
func (r *Renewer) isSuperseded(id *credential.Identity) bool {
	return r.store != nil && r.store.Meta().Superseded == id.Fingerprint()
}

// supersedes reports whether the hub rejects the agent since another one has joined the location.
func supersedes(err error) bool {
	refused, ok := errors.AsType[*hubError](err)
	return ok && refused.refusal == wire.RefusedSuperseded
}

// obtain requests a credential over a connection of its own, stores it, and makes the client
// use it.
func (r *Renewer) obtain(ctx context.Context, path, token string, compose func(request []byte) (any, error)) error {
	request, err := r.keeper.Request()
	if err != nil {
		return err
	}
	message, err := compose(request)
	if err != nil {
		return err
	}
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the request for a credential: %w", err)
	}
	l, err := r.client.newLine(nil)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	answer, err := r.client.over(ctx, l, http.MethodPost, path, token, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var issued wire.Issued
	if err := json.NewDecoder(io.LimitReader(answer.Body, wire.MaxEnrol)).Decode(&issued); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	id, err := r.keeper.Take(issued, token, time.Now())
	if err != nil {
		return err
	}
	r.taken = time.Now()
	if err := r.use(id); err != nil {
		return err
	}
	select {
	case <-r.client.renew: // a request to renew the previous credential
	default:
	}
	return nil
}
