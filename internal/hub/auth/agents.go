package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// authenticate returns the agent that sends a request, by its client certificate, its bearer token,
// or a token of a former version. ok is false if the request has no agent credentials; other
// authenticators may then accept it. renew reports that the agent should renew its credential.
func (e *Enrolments) authenticate(r *http.Request) (response *authenticator.Response, renew, ok bool, err error) {
	token := bearerOf(r)
	var c enroll.Credential
	switch {
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && enroll.IsAgent(r.TLS.PeerCertificates[0]):
		cert := r.TLS.PeerCertificates[0]
		c, err = e.read(cert.Raw, func() (*x509.Certificate, error) { return cert, nil })
	case wire.IsBearer(token):
		c, err = e.read([]byte(token), func() (*x509.Certificate, error) { return wire.ParseBearer(token) })
	case enroll.IsJoin(token):
		return nil, false, false, refusalOf(fmt.Errorf("%w; it has to be traded for a credential: is the agent of an older version than the hub?", enroll.ErrUnknownJoin))
	default:
		response, ok, err = e.authenticateLasting(r.Context(), token)
		return response, false, ok, err
	}
	if err != nil {
		return nil, false, false, refusalOf(err)
	}
	now := e.config.Now()
	if !now.Before(c.NotAfter) {
		return nil, false, false, refusalOf(errExpired)
	}
	if err := e.checkCredential(r, c); err != nil {
		return nil, false, false, refusalOf(err)
	}
	restOn(r.Context(), table.Condition{Key: key.Enrolment(c.Location), IsMet: func(row *table.Row) bool {
		_, err := recordOf(row, c.UID).ForShard(c.Shard).Check(c)
		return err == nil
	}})
	restOn(r.Context(), isLocation(c.Location, c.UID))
	recordCredential(r.Context(), func(shown *Credential) { shown.Until, shown.agent = c.NotAfter, &c })
	return agent(c.Location, c.Shard), e.due(&c), true, nil
}

// due reports whether a credential should be renewed now.
func (e *Enrolments) due(c *enroll.Credential) bool {
	return !e.config.Authority.Signer().Equal(c.Signer) || e.config.Now().After(c.NotAfter.Add(-e.config.Life/3))
}

// Due reports whether the agent that sent the request should renew its credential now. It fails if
// the credential is no longer valid because its authority was replaced.
func (e *Enrolments) Due(ctx context.Context) (bool, error) {
	c := CredentialOf(ctx).agent
	switch {
	case c == nil:
		return false, nil
	case !e.config.Authority.Trusts(c.Signer):
		return true, errReplaced
	}
	return e.due(c), nil
}

// SignedBy returns the authority that signed the credential of the agent that sent the request;
// empty if there is none.
func SignedBy(ctx context.Context) string {
	c := CredentialOf(ctx).agent
	if c == nil {
		return ""
	}
	return wire.Fingerprint(c.Signer.Raw)
}

// ShardOf returns the shard number, from 1, of the agent that sent the request; 1 for the whole
// location.
func ShardOf(ctx context.Context) int {
	c := CredentialOf(ctx).agent
	if c == nil {
		return 1
	}
	return max(1, c.Shard)
}

// read reads the credential of a client, which is verified from time to time. The handshake, or a
// signature of the client, has proved that the client has the key.
func (e *Enrolments) read(shown []byte, parse func() (*x509.Certificate, error)) (enroll.Credential, error) {
	sum := sha256.Sum256(shown)
	if known, ok := e.known.Get(sum); ok {
		c := known.(enroll.Credential) //nolint:forcetypeassert // the cache contains only credentials
		if e.config.Authority.Trusts(c.Signer) {
			return c, nil
		}
	}
	cert, err := parse()
	if err != nil {
		return enroll.Credential{}, fmt.Errorf("%w: %w", enroll.ErrOther, err)
	}
	c, err := e.config.Authority.Credential(cert)
	if err != nil {
		if _, former := e.former(cert); former == nil {
			return c, errReplaced
		}
		return c, fmt.Errorf("%w: %w", enroll.ErrOther, err)
	}
	e.known.Add(sum, c, knownFor)
	return c, nil
}

// former reads a credential of a replaced authority, if such credentials can still be renewed. That
// ends for all of them together with the authority, whatever their expiry.
func (e *Enrolments) former(cert *x509.Certificate) (enroll.Credential, error) {
	c, dropped, err := e.config.Authority.FormerCredential(cert)
	if err == nil && !e.config.Now().Before(dropped.Add(e.config.Late)) {
		err = errTooLate
	}
	return c, err
}

// authenticateLasting authenticates agents of the previous version by long-lived tokens.
func (e *Enrolments) authenticateLasting(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	l, _, ok := enroll.TokenOf(token) // such tokens are for the whole location
	if !ok {
		return nil, false, nil
	}
	record, _, ok := e.record(l)
	if !ok {
		return nil, false, refusalOf(enroll.ErrUnknownJoin)
	}
	if err := record.CheckLasting(token); err != nil {
		return nil, false, refusalOf(err)
	}
	uid := record.Location
	restOn(ctx, table.Condition{Key: key.Enrolment(l), IsMet: func(row *table.Row) bool {
		return row != nil && recordOf(row, uid).CheckLasting(token) == nil
	}})
	restOn(ctx, isLocation(l, uid))
	return agent(l, 0), true, nil
}

// isLocation is the stream condition that a location has a UID.
func isLocation(l key.Location, uid string) table.Condition {
	return table.Condition{Key: l.Key(), IsMet: func(row *table.Row) bool { return row != nil && row.Meta.UID == uid }}
}

// shardExtra is the extra field of an agent's user with its shard, if it is not the first.
const shardExtra = "orrery.dev/shard"

// agent returns the user of a location's agent, by the number of its shard.
func agent(l key.Location, shard int) *authenticator.Response {
	is := &user.DefaultInfo{Name: enroll.UserPrefix + string(l), Groups: []string{enroll.Agents, user.AllAuthenticated}}
	if shard > 1 {
		is.Extra = map[string][]string{shardExtra: {strconv.Itoa(shard)}}
	}
	return &authenticator.Response{User: is}
}

// bearerOf returns the bearer token of a request; empty if there is none.
func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
