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

// receiveTimeout bounds how long a client may take to send what it asks for.
const receiveTimeout = 15 * time.Second

// Receive reads what a request for a credential says, so that who is slow to send it holds
// up nobody: until it is there nobody knows who they are.
func (e *Enrolments) Receive(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	// A writer without deadlines, as in tests, goes without.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(receiveTimeout))
	body, err := requestbody.Read(r, requestbody.Limits{Bytes: wire.MaxEnrol})
	if err != nil {
		return r, respond.BadBody(err, "read the body")
	}
	received := r.WithContext(r.Context())
	requestbody.Put(received, body)
	return received, nil
}

// ServeEnrol gives whoever shows a join token a credential, for the key of the request
// in the body, which was received. Nobody is known by the token otherwise.
func (e *Enrolments) ServeEnrol(w http.ResponseWriter, r *http.Request) {
	issued, err := e.enrol(r)
	if err != nil {
		e.refuse(w, r, err)
		return
	}
	respond.JSON(w, issued)
}

// ServeRenew gives who has the key of a credential of the location the one that follows.
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
			level = slog.LevelDebug // anybody can have that said
		}
		e.config.Logger.Log(r.Context(), level, "an agent was not given a credential", "path", r.URL.Path, "from", r.RemoteAddr, "error", err)
		err = refused
	}
	respond.Error(w, r, err)
}

func (e *Enrolments) enrol(r *http.Request) (issued wire.Issued, err error) {
	var asked wire.Enrol
	if err := decode(r, &asked); err != nil {
		return issued, err
	}
	public, of, err := enroll.KeyOf(asked.Request)
	if err != nil {
		return issued, respond.BadRequest("%v", err)
	}
	token := bearerOf(r)
	issued, err = e.trade(r, token, public, of)
	if errors.Is(err, enroll.ErrUnknownJoin) { // it may have been made just now, by another hub
		if err := e.fresh.wait(r.Context()); err != nil {
			return issued, err
		}
		issued, err = e.trade(r, token, public, of)
	}
	return issued, err
}

// trade trades a join token for a credential of a key, by what the table has.
func (e *Enrolments) trade(r *http.Request, token string, public *ecdsa.PublicKey, of string) (issued wire.Issued, err error) {
	l, shard, ok := enroll.TokenOf(token)
	if !ok {
		return issued, enroll.ErrUnknownJoin
	}
	record, _, ok := e.record(l)
	if !ok {
		return issued, enroll.ErrUnknownJoin
	}
	return e.issue(r, agentOf{l, shard}, record.Location, public, func(now enroll.Record) (enroll.Credential, enroll.Record, error) {
		return now.Trade(l, token, of, e.config.Now())
	})
}

func (e *Enrolments) renew(r *http.Request, l key.Location) (issued wire.Issued, err error) {
	var asked wire.Renewal
	if err := decode(r, &asked); err != nil {
		return issued, err
	}
	cert, err := asked.Verify()
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
		if err := e.judge(r, c); err != nil && !errors.Is(err, enroll.ErrReadmitted) {
			return issued, err
		}
	}
	public, of, err := enroll.KeyOf(asked.Request)
	if err != nil {
		return issued, respond.BadRequest("%v", err)
	}
	return e.issue(r, agentOf{l, c.Shard}, c.UID, public, func(now enroll.Record) (enroll.Credential, enroll.Record, error) {
		if former { // of which the end is not believed either
			if err := now.JudgeFormer(c); err != nil {
				return enroll.Credential{}, now, err
			}
			return now.Renew(c, of)
		}
		if now.Readmitted(c) {
			next, now := now.Rejoin(c, of, e.config.Now())
			return next, now, nil
		}
		next, now, err := now.Renew(c, of)
		// A clock that is behind for a while must not make a credential that has ended, perhaps
		// for too long to be renewed, once the clock is right.
		next.NotAfter = c.NotAfter
		return next, now, err
	})
}

// renewable reads a certificate that is to be renewed. former says that its authority was
// replaced.
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

// issue writes what a step makes of the record of an agent of a location, and signs the
// credential that it leads to for a key.
func (e *Enrolments) issue(r *http.Request, one agentOf, uid string, public *ecdsa.PublicKey,
	step func(enroll.Record) (enroll.Credential, enroll.Record, error),
) (issued wire.Issued, err error) {
	var made enroll.Credential
	counted, ctx := false, r.Context()
	if err := e.changeOf(ctx, one.location, one.shard, uid, func(now enroll.Record) (next enroll.Record, err error) {
		if made, next, err = step(now); err != nil || counted {
			return next, err
		}
		counted = true // only who has shown something good is counted
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

// decode decodes a body that was received.
func decode(r *http.Request, into any) error {
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		return respond.BadRequest("header %s is %q: this hub speaks version %s", wire.Header, v, wire.ProtocolVersion)
	}
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: wire.MaxEnrol}, into); err != nil {
		return respond.BadBody(err, "decode the body")
	}
	return nil
}
