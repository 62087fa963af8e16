package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// enrolRate and enrolBurst limit how often one location gets a credential.
	enrolRate, enrolBurst = 2, 20
	// changeTries and changeTimeout limit a write that conflicts with writes of others.
	changeTries   = 8
	changeTimeout = 10 * time.Second
)

// EnrolmentsConfig configures Enrolments.
type EnrolmentsConfig struct {
	// Authority signs credentials.
	Authority *enroll.Authority
	// Table and Log contain the records of enrolments.
	Table *table.Table
	Log   *etcd.Log
	// Moves observes the table.
	Moves *Moves
	// Committed waits until the table contains all earlier writes.
	Committed func(context.Context) error
	// Life is the lifetime of a credential, and Late how long after that it can be renewed; 0 for
	// not at all.
	Life, Late time.Duration
	Logger     *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Enrolments issues the credentials of agents, and authenticates agents by them. It is safe for
// concurrent use.
type Enrolments struct {
	config EnrolmentsConfig
	// known caches verified certificates and bearer tokens.
	known  *utilcache.LRUExpireCache
	fresh  *fresh
	rates  *fairqueue.Rates
	reused atomic.Int64
}

// NewEnrolments returns Enrolments.
func NewEnrolments(config EnrolmentsConfig) *Enrolments {
	return &Enrolments{
		config: config, known: utilcache.NewLRUExpireCache(maxKnown), fresh: newFresh(config.Committed), rates: fairqueue.NewRates(enrolRate, enrolBurst),
	}
}

// Reused returns how many enrolments were revoked because a renewed credential was used again.
func (e *Enrolments) Reused() int64 { return e.reused.Load() }

// NewToken creates a join token for an agent of a location with a UID, by the number of its shard,
// and stores its hash. It replaces the previous token. An agent that has joined keeps working until
// the new token is used.
func (e *Enrolments) NewToken(ctx context.Context, l key.Location, shard int, uid string, valid time.Duration) (token string, expires time.Time, err error) {
	err = e.changeOf(ctx, l, shard, uid, func(r enroll.Record) (enroll.Record, error) {
		token, r = r.WithJoin(l, e.config.Now().Add(valid))
		expires = r.Join.Expires
		return r, nil
	})
	return token, expires, err
}

// Revoke invalidates all credentials and join tokens of the agents of a location.
func (e *Enrolments) Revoke(ctx context.Context, l key.Location, uid, who string) error {
	err := e.change(ctx, l, uid, func(r enroll.Record) (enroll.Record, error) {
		return r.RevokeAll(enroll.Revocation{Time: e.config.Now(), Message: "revoked by " + who}), nil
	})
	if err == nil {
		e.config.Logger.Warn("the enrolment of a location was revoked", "location", l, "by", who)
	}
	return err
}

// Readmit admits the agent again that used a renewed credential, by the number of its shard.
func (e *Enrolments) Readmit(ctx context.Context, l key.Location, shard int, uid, who string) error {
	err := e.changeOf(ctx, l, shard, uid, enroll.Record.Readmit)
	if err == nil {
		e.config.Logger.Warn("the agent of a location that has shown a spent credential was readmitted", "location", l, "shard", shard, "by", who)
	}
	return err
}

// record returns the record of a location in the table, and its row; none if the location does not
// exist.
func (e *Enrolments) record(l key.Location) (r enroll.Record, row *table.Row, ok bool) {
	row, _ = e.config.Table.Get(key.Enrolment(l))
	location, _ := e.config.Table.Get(l.Key())
	if location == nil || location.Meta.UID == "" {
		return r, nil, false
	}
	return recordOf(row, location.Meta.UID), row, true
}

func recordOf(row *table.Row, uid string) enroll.Record {
	if row == nil {
		return enroll.ParseRecord(nil, uid)
	}
	return enroll.ParseRecord(row.Value, uid)
}

// errBusy is returned if other clients repeatedly write the same record.
var errBusy = errors.New("the location's enrolment is being changed by others; try again")

// changeOf is change for the part of the record that belongs to one agent of the location.
func (e *Enrolments) changeOf(ctx context.Context, l key.Location, shard int, uid string, step func(enroll.Record) (enroll.Record, error)) error {
	return e.change(ctx, l, uid, func(all enroll.Record) (enroll.Record, error) {
		agentRecord, err := step(all.ForShard(shard))
		return all.With(agentRecord), err
	})
}

// change applies a step to the record of the location with a UID, writes the result unless it is
// unchanged, and waits until the table contains it. The step may be called several times.
func (e *Enrolments) change(ctx context.Context, l key.Location, uid string, step func(enroll.Record) (enroll.Record, error)) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for range changeTries {
		before, row, ok := e.record(l)
		if !ok || before.Location != uid {
			return enroll.ErrOther
		}
		after, err := step(before)
		if err != nil {
			return err
		}
		var seen int64
		var value []byte
		if row == nil {
			value = after.Encode()
		} else if value = after.EncodeOver(row.Value); string(row.Value) == string(value) {
			return nil
		} else {
			seen = row.ModRev
		}
		rev, done, err := e.config.Log.Put(ctx, key.Enrolment(l), value, seen)
		if err != nil {
			return err
		}
		if err := e.config.Table.WaitFor(ctx, rev); err != nil || done {
			return err
		}
	}
	return errBusy
}

// checkCredential returns an error if a credential is invalid. The first use of a credential is
// recorded. The use of one that was already renewed revokes the enrolment.
func (e *Enrolments) checkCredential(r *http.Request, c enroll.Credential) error {
	news, err := e.lookup(c)
	if errors.Is(err, enroll.ErrOther) || errors.Is(err, enroll.ErrRevoked) {
		// Another hub may have just added the location or enrolled its agent.
		if err := e.fresh.wait(r.Context()); err != nil {
			return err
		}
		news, err = e.lookup(c)
	}
	switch {
	case errors.Is(err, enroll.ErrSuperseded):
		e.config.Logger.Warn("an agent that another one has superseded is still there", "location", c.Location, "credential", c.Number, "from", r.RemoteAddr)
		return err
	case errors.Is(err, enroll.ErrSpent):
		return e.spent(r, c)
	case err != nil || !news:
		return err
	}
	err = e.changeOf(r.Context(), c.Location, c.Shard, c.UID, func(now enroll.Record) (enroll.Record, error) {
		if _, err := now.Check(c); err != nil {
			return now, err
		}
		return now.Use(c), nil
	})
	if err != nil && refusalOf(err).cause == "" {
		// The credential stays valid; the next request records its use.
		e.config.Logger.Warn("the use of a new credential can't be noted", "location", c.Location, "error", err)
		return nil
	}
	return err
}

// lookup checks a credential by the table.
func (e *Enrolments) lookup(c enroll.Credential) (news bool, err error) {
	record, _, ok := e.record(c.Location)
	if !ok {
		return false, enroll.ErrOther
	}
	return record.ForShard(c.Shard).Check(c)
}

// spent returns the error for a renewed credential. If the request can't be from before the
// renewal, two clients have the credential, and both are locked out.
func (e *Enrolments) spent(r *http.Request, c enroll.Credential) error {
	if e.config.Moves.just(agentOf{c.Location, max(1, c.Shard)}, e.config.Life/4) {
		return enroll.ErrSpent
	}
	revoked := false
	err := e.changeOf(r.Context(), c.Location, c.Shard, c.UID, func(now enroll.Record) (enroll.Record, error) {
		revoked = false
		if _, err := now.Check(c); !errors.Is(err, enroll.ErrSpent) {
			return now, err
		}
		revoked = true
		return now.Revoke(enroll.Revocation{Time: e.config.Now(), Reused: true, Shown: new(c.Mark()), Message: fmt.Sprintf(
			"credential %d, which was renewed and spent, was shown again, from %s: two agents have it", c.Number, r.RemoteAddr)}), nil
	})
	if revoked {
		if err == nil {
			e.reused.Add(1)
		}
		e.config.Logger.Error("a spent credential was shown again: two agents have it, and the enrolment of the location is revoked",
			"location", c.Location, "credential", c.Number, "from", r.RemoteAddr, "error", err)
		return enroll.ErrSpent
	}
	return err
}

// refusedError is the error for a client that is not authenticated as an agent.
type refusedError struct {
	cause wire.Refusal
	err   error
}

func (r refusedError) Error() string { return r.err.Error() }

func (r refusedError) Unwrap() error { return r.err }

// Status implements apierrors.APIStatus.
func (r refusedError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: r.Error(),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(r.cause), Message: r.Error()}}},
	}
}

var (
	errExpired = errors.New("the credential has expired")
	// The agent reacts to both in the same way: it renews its credential.
	errReplaced = fmt.Errorf("%w: the certificate authority that has signed it was replaced", errExpired)
	errTooLate  = errors.New("the credential has expired for longer than it can be renewed")
	errNothing  = errors.New("no credential arrived")
)

// refusals are the errors that agents receive.
var refusals = []refusedError{
	{wire.RefusedNone, errNothing},
	{wire.RefusedJoin, enroll.ErrUnknownJoin}, {wire.RefusedJoinUsed, enroll.ErrJoinUsed}, {wire.RefusedJoinLate, enroll.ErrJoinExpired},
	{wire.RefusedForeign, enroll.ErrOther}, {wire.RefusedExpired, errExpired}, {wire.RefusedExpired, enroll.ErrReadmitted}, {wire.RefusedTooLate, errTooLate},
	{wire.RefusedSuperseded, enroll.ErrSuperseded}, {wire.RefusedSpent, enroll.ErrSpent}, {wire.RefusedRevoked, enroll.ErrRevoked},
}

// refusalOf returns the error that an agent receives; without a cause if it is not in the list.
func refusalOf(err error) refusedError {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return refusedError{r.cause, err}
		}
	}
	return refusedError{"", err}
}
