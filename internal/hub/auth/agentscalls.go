package auth

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// receiveTimeout limits the time in which a client must send its request body.
const receiveTimeout = 15 * time.Second

// Receive reads the body of a request for a credential before a turn is taken. A slow client, which
// is not yet authenticated, thus delays no others.
func (e *Enrolments) Receive(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	// A writer without deadlines, as in tests, has no limit.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(receiveTimeout))
	body, err := requestbody.Read(r, requestbody.Limits{Bytes: wire.MaxEnrol})
	if err != nil {
		return r, respond.BadBody(err, "read the body")
	}
	received := r.WithContext(r.Context())
	requestbody.Put(received, body)
	return received, nil
}

// ServeEnrol gives a client with a join token a credential for the key of the request in the body,
// which was received. A join token authenticates no other requests.
func (e *Enrolments) ServeEnrol(w http.ResponseWriter, r *http.Request) {
	issued, err := e.enrol(r)
	if err != nil {
		e.refuse(w, r, err)
		return
	}
	respond.JSON(w, issued)
}

// ServeRenew gives a client with the key of a location's credential the next credential.
func (e *Enrolments) ServeRenew(w http.ResponseWriter, r *http.Request, l key.Location) {
	issued, err := e.renew(r, l)
	if err != nil {
		e.refuse(w, r, err)
		return
	}
	respond.JSON(w, issued)
}

func (e *Enrolments) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if refused := refusalOf(err); refused.cause != "" {
		level := slog.LevelWarn
		if refused.cause == wire.RefusedJoin || refused.cause == wire.RefusedForeign {
			level = slog.LevelDebug // unauthenticated clients can cause this message
		}
		e.config.Logger.Log(r.Context(), level, "an agent was not given a credential", "path", r.URL.Path, "from", r.RemoteAddr, "error", err)
		err = refused
	}
	respond.Error(w, r, err)
}

func (e *Enrolments) enrol(r *http.Request) (issued wire.Issued, err error) {
	var body wire.Enrol
	if err := decode(r, &body); err != nil {
		return issued, err
	}
	public, keyID, err := enroll.KeyOf(body.Request)
	if err != nil {
		return issued, respond.BadRequest("%v", err)
	}
	token := bearerOf(r)
	issued, err = e.trade(r, token, public, keyID)
	if errors.Is(err, enroll.ErrUnknownJoin) { // another hub may have created it just now
		if err := e.fresh.wait(r.Context()); err != nil {
			return issued, err
		}
		issued, err = e.trade(r, token, public, keyID)
	}
	return issued, err
}

// trade exchanges a join token for a credential of a key, by the table.
func (e *Enrolments) trade(r *http.Request, token string, public *ecdsa.PublicKey, keyID string) (issued wire.Issued, err error) {
	l, shard, ok := enroll.TokenOf(token)
	if !ok {
		return issued, enroll.ErrUnknownJoin
	}
	record, _, ok := e.record(l)
	if !ok {
		return issued, enroll.ErrUnknownJoin
	}
	return e.issue(r, agentOf{l, shard}, record.Location, public, func(now enroll.Record) (enroll.Credential, enroll.Record, error) {
		return now.Trade(l, token, keyID, e.config.Now())
	})
}

func (e *Enrolments) renew(r *http.Request, l key.Location) (issued wire.Issued, err error) {
	var body wire.Renewal
	if err := decode(r, &body); err != nil {
		return issued, err
	}
	cert, err := body.Verify()
	if err != nil {
		return issued, fmt.Errorf("%w: %w", enroll.ErrOther, err)
	}
	c, former, err := e.renewable(cert)
	if err != nil {
		return issued, err
	}
	if c.Location != l {
		return issued, enroll.ErrOther
	}
	if now := e.config.Now(); !now.Before(c.NotAfter.Add(e.config.Late)) {
		return issued, errTooLate
	}
	if !former {
		if err := e.checkCredential(r, c); err != nil && !errors.Is(err, enroll.ErrReadmitted) {
			return issued, err
		}
	}
	public, keyID, err := enroll.KeyOf(body.Request)
	if err != nil {
		return issued, respond.BadRequest("%v", err)
	}
	return e.issue(r, agentOf{l, c.Shard}, c.UID, public, func(now enroll.Record) (enroll.Credential, enroll.Record, error) {
		if former { // its expiry is not trusted either
			if err := now.CheckFormer(c); err != nil {
				return enroll.Credential{}, now, err
			}
			return now.Renew(c, keyID)
		}
		if now.Readmitted(c) {
			next, now := now.Rejoin(c, keyID, e.config.Now())
			return next, now, nil
		}
		next, now, err := now.Renew(c, keyID)
		// If the clock is late for a while, it must not extend a credential that has expired,
		// perhaps for too long to be renewed.
		next.NotAfter = c.NotAfter
		return next, now, err
	})
}

// renewable reads a certificate to renew. former reports that its authority was replaced.
func (e *Enrolments) renewable(cert *x509.Certificate) (c enroll.Credential, former bool, err error) {
	c, err = e.config.Authority.Credential(cert)
	if err == nil {
		return c, false, nil
	}
	if c, err := e.former(cert); err == nil || errors.Is(err, errTooLate) {
		return c, true, err
	}
	return c, false, fmt.Errorf("%w: %w", enroll.ErrOther, err)
}

// issue applies a step to the record of an agent, writes the result, and signs the credential for a
// key.
func (e *Enrolments) issue(r *http.Request, one agentOf, uid string, public *ecdsa.PublicKey,
	step func(enroll.Record) (enroll.Credential, enroll.Record, error),
) (issued wire.Issued, err error) {
	var made enroll.Credential
	counted, ctx := false, r.Context()
	if err := e.changeOf(ctx, one.location, one.shard, uid, func(now enroll.Record) (next enroll.Record, err error) {
		if made, next, err = step(now); err != nil || counted {
			return next, err
		}
		counted = true // only requests with valid credentials are counted
		return next, e.rates.Wait(ctx, string(one.location), 1, 0)
	}); err != nil {
		return issued, err
	}
	if issued.Certificate, err = e.config.Authority.Agent(made, public, e.config.Life); err != nil {
		return issued, err
	}
	issued.RenewAfterMilliseconds = (e.config.Life * 2 / 3).Milliseconds()
	e.config.Logger.Info("an agent was given a credential", "location", one.location, "shard", max(1, one.shard), "credential", made.Number, "join", made.Joined, "from", r.RemoteAddr)
	return issued, nil
}

// decode decodes a received body.
func decode(r *http.Request, into any) error {
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		return respond.BadRequest("header %s is %q: this hub speaks version %s", wire.Header, v, wire.ProtocolVersion)
	}
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: wire.MaxEnrol}, into); err != nil {
		return respond.BadBody(err, "decode the body")
	}
	return nil
}
