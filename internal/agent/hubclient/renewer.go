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
	// renewRetry caps the wait before a credential is asked for again, and refusedRetry is
	// that after the hub has said no for good: somebody may change its mind.
	renewRetry   = time.Minute
	refusedRetry = 10 * time.Minute
	// renewPause is how long a credential is kept at least if the hub at once wants another:
	// hubs whose clocks or authorities differ would otherwise have one after the other.
	renewPause = 10 * time.Second
	// askedSpread, or that part of the time between two renewals if it is less, is over how
	// long renewals are spread for which the hub asks all agents at once.
	askedSpread = 10 * time.Second
	askedPart   = 100
	// oneTime begins join tokens that work once. Others are of a former version: they last,
	// and are traded where the hub does so.
	oneTime = "orr_j_"
)

// Renewer keeps the client's credential: it joins by the join token, and renews what it
// was given.
type Renewer struct {
	client *Client
	keeper *credential.Keeper
	store  *store.Store
	state  *State
	log    *slog.Logger
	// given says that the join token was given for this start: then one that is refused is
	// an error even if there is a credential from before.
	given bool
	// tried is closed when the hub has been asked once to join, or need not be.
	tried chan struct{}
	// taken is when a credential was, in this process.
	taken     time.Time
	closeOnce func()
}

// NewRenewer has the client of a link use what a keeper has, and keep it good. What keeps
// it from joining is in the link's state.
func NewRenewer(link Link, k *credential.Keeper, given bool) (*Renewer, error) {
	r := &Renewer{client: link.Client, keeper: k, store: link.Store, state: link.State, log: link.Log, given: given, tried: make(chan struct{})}
	r.closeOnce = sync.OnceFunc(func() { close(r.tried) })
	if id := k.Current(); id != nil {
		return r, r.use(id)
	}
	return r, nil
}

// Tried is closed when the agent has joined, or found that it can't for now.
func (r *Renewer) Tried() <-chan struct{} { return r.tried }

// use has the client go on with a credential.
func (r *Renewer) use(id *credential.Identity) error {
	l, err := r.client.newLine(id)
	if err != nil {
		return err
	}
	r.client.lines.replace(l)
	return nil
}

// Run joins if that is still to be done, and renews, until ctx ends. It returns an error
// if the hub refuses the join token.
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

// join asks until it has a credential.
func (r *Renewer) join(ctx context.Context, token string) error {
	lasting := !strings.HasPrefix(token, oneTime)
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		err := r.ask(ctx, route.Enrol, token, func(request []byte) (any, error) { return wire.Enrol{Request: request}, nil })
		if err == nil {
			r.log.Info("joined the hub", "hub", r.client.join.Hub)
			return nil
		}
		wait := max(retry.Backoff(failures, retry.First, renewRetry), asksToWait(err))
		refused, answered := errors.AsType[*hubError](err)
		switch {
		case lasting && answered && (refused.refusal != "" || slices.Contains([]int{http.StatusForbidden, http.StatusNotFound}, refused.code)):
			// The hub is of a former version, or knows the token no more. What says which is the
			// session that is tried with it.
			if r.keeper.Current() == nil {
				r.lasting(token)
			}
			wait = refusedRetry
		case answered && refused.refusal != "" && (r.given || r.keeper.Current() == nil):
			return &JoinError{err}
		case answered && refused.refusal != "":
			r.log.Error("the join token is refused; the agent goes on with the credential from before", "error", err)
			return nil
		}
		r.state.failed(err)
		r.closeOnce()
		r.log.Warn("the agent could not join the hub yet", "error", err, "retry", wait)
		r.pause(ctx, wait)
	}
	return nil
}

// JoinError says that the hub refuses the join token.
type JoinError struct{ err error }

func (e *JoinError) Error() string {
	return fmt.Sprintf("join the hub: %v; make another token with: orrery location token NAME", e.err)
}

// Unwrap is for errors.Is and errors.As.
func (e *JoinError) Unwrap() error { return e.err }

// lasting has the client use a token of a former version as it is.
func (r *Renewer) lasting(token string) {
	l, err := r.client.newLine(nil)
	if err != nil { // there is nothing to sign
		panic(err)
	}
	l.token = token
	r.client.lines.replace(l)
}

// pause waits, or until the hub says that it is time, which it returns.
func (r *Renewer) pause(ctx context.Context, wait time.Duration) (asked bool) {
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

// await waits until a credential is to be renewed: when the hub says so, or when as much
// time has passed as the hub has said. It returns false when ctx has ended.
func (r *Renewer) await(ctx context.Context, id *credential.Identity) bool {
	if !r.taken.IsZero() {
		retry.Pause(ctx, min(renewPause, id.RenewAfter/4)-time.Since(r.taken))
	}
	const jitter = 10
	wait := id.Due(time.Now())
	// Those who joined together do not renew together, nor do those who are asked together.
	if r.pause(ctx, wait-rand.N(wait/jitter+1)) {
		retry.Pause(ctx, rand.N(min(askedSpread, id.RenewAfter/askedPart)+1))
	}
	return ctx.Err() == nil
}

// renew asks for the next credential until it has it.
func (r *Renewer) renew(ctx context.Context, id *credential.Identity) {
	call := route.Agent(key.Location(r.client.join.Location)).Path(route.Renew)
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		err := r.ask(ctx, call, "", func(request []byte) (any, error) { return id.Renewal(request) })
		if err == nil {
			r.log.Info("the credential was renewed", "until", r.keeper.Current().Ends())
			return
		}
		wait := max(retry.Backoff(failures, retry.First, renewRetry), asksToWait(err))
		if supersedes(err) { // which no time changes
			r.log.Error("the hub does not renew the agent's credential, since another agent has joined the location", "error", err)
			<-ctx.Done()
			return
		}
		if locksOut(err) {
			r.log.Error("the hub does not renew the agent's credential; the cluster stays as it is", "error", err)
			r.pause(ctx, refusedRetry) // or until a session was refused since it has expired
			continue
		}
		r.log.Warn("the credential could not be renewed yet", "error", err, "until", id.Ends(), "retry", wait)
		retry.Pause(ctx, wait)
	}
}

// locksOut says that the hub will not know the agent again by what it has.
func locksOut(err error) bool {
	refused, ok := errors.AsType[*hubError](err)
	return ok && refused.refusal != "" && refused.refusal != wire.RefusedNone && refused.refusal != wire.RefusedExpired
}

// isSuperseded reports whether the hub has refused a credential before, since another agent has joined
// the location. A hub that was restored since might renew it.
func (r *Renewer) isSuperseded(id *credential.Identity) bool {
	return r.store != nil && r.store.Meta().Superseded == id.Fingerprint()
}

// supersedes reports whether the hub refuses the agent since another one has joined the location.
func supersedes(err error) bool {
	refused, ok := errors.AsType[*hubError](err)
	return ok && refused.refusal == wire.RefusedSuperseded
}

// ask asks for a credential, keeps it, and has the client use it. What is asked and
// answered goes over connections of its own.
func (r *Renewer) ask(ctx context.Context, path, token string, compose func(request []byte) (any, error)) error {
	request, err := r.keeper.Request()
	if err != nil {
		return err
	}
	question, err := compose(request)
	if err != nil {
		return err
	}
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encode what is asked: %w", err)
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
	case <-r.client.renew: // what was said of the one before
	default:
	}
	return nil
}
