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

// authenticate says which agent sends a request, by the certificate of its connection,
// by the bearer that stands for it, or by a token of a former version. ok is false if
// the request shows nothing of an agent: then others may know who sends it. renew says
// that the agent is to renew its credential.
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
	if err := e.judge(r, c); err != nil {
		return nil, false, false, refusalOf(err)
	}
	restOn(r.Context(), table.Premise{Key: key.Enrolment(c.Location), Holds: func(row *table.Row) bool {
		_, err := recordOf(row, c.UID).Of(c.Shard).Judge(c)
		return err == nil
	}})
	restOn(r.Context(), isLocation(c.Location, c.UID))
	showing(r.Context(), func(shown *Credential) { shown.Until, shown.agent = c.NotAfter, &c })
	return agent(c.Location, c.Shard), e.due(&c), true, nil
}

// due says whether a credential is to be renewed now.
func (e *Enrolments) due(c *enroll.Credential) bool {
	return !e.config.Authority.Signer().Equal(c.Signer) || e.config.Now().After(c.NotAfter.Add(-e.config.Life/3))
}

// Due says whether the agent that has sent the request of a context is to renew its
// credential now. It fails if that is good no more since its authority was replaced.
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

// SignedBy names the authority that has signed the credential of the agent that has sent
// the request of a context; empty: none has.
func SignedBy(ctx context.Context) string {
	c := CredentialOf(ctx).agent
	if c == nil {
		return ""
	}
	return wire.Fingerprint(c.Signer.Raw)
}

// ShardOf is the number of the shard, from 1, of the agent that has sent the request of a
// context; that of the whole is 1, too.
func ShardOf(ctx context.Context) int {
	c := CredentialOf(ctx).agent
	if c == nil {
		return 1
	}
	return max(1, c.Shard)
}

// read reads the credential that a client shows, which is verified once in a while. The
// handshake, or what the client has signed, has proved that it holds the key.
func (e *Enrolments) read(shown []byte, parse func() (*x509.Certificate, error)) (enroll.Credential, error) {
	sum := sha256.Sum256(shown)
	if known, ok := e.known.Get(sum); ok {
		c := known.(enroll.Credential) //nolint:forcetypeassert // nothing else is in there
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

// former reads a credential of an authority that was replaced, if such can still be
// renewed: that ends with the authority for all of them at once, whatever they say.
func (e *Enrolments) former(cert *x509.Certificate) (enroll.Credential, error) {
	c, dropped, err := e.config.Authority.FormerCredential(cert)
	if err == nil && !e.config.Now().Before(dropped.Add(e.config.Late)) {
		err = errTooLate
	}
	return c, err
}

// authenticateLasting knows agents of the version before by tokens that last.
func (e *Enrolments) authenticateLasting(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	l, _, ok := enroll.TokenOf(token) // such are of the whole
	if !ok {
		return nil, false, nil
	}
	record, _, ok := e.record(l)
	if !ok {
		return nil, false, refusalOf(enroll.ErrUnknownJoin)
	}
	if err := record.JudgeLasting(token); err != nil {
		return nil, false, refusalOf(err)
	}
	uid := record.Location
	restOn(ctx, table.Premise{Key: key.Enrolment(l), Holds: func(row *table.Row) bool {
		return row != nil && recordOf(row, uid).JudgeLasting(token) == nil
	}})
	restOn(ctx, isLocation(l, uid))
	return agent(l, 0), true, nil
}

// isLocation is the premise that a location is the one that has a UID.
func isLocation(l key.Location, uid string) table.Premise {
	return table.Premise{Key: l.Key(), Holds: func(row *table.Row) bool { return row != nil && row.Meta.UID == uid }}
}

// shardExtra says of the user that an agent is which shard it has, if that is not the first.
const shardExtra = "orrery.dev/shard"

// agent is whom the agent of a location is known as, by the number of its shard.
func agent(l key.Location, shard int) *authenticator.Response {
	is := &user.DefaultInfo{Name: enroll.UserPrefix + string(l), Groups: []string{enroll.Agents, user.AllAuthenticated}}
	if shard > 1 {
		is.Extra = map[string][]string{shardExtra: {strconv.Itoa(shard)}}
	}
	return &authenticator.Response{User: is}
}

// bearerOf is the bearer token of a request; empty: there is none.
func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
