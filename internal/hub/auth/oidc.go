package auth

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"orrery.dev/orrery/internal/hub/auth/oidc"
)

// issued authenticates users by tokens of issuers. Streams end when the token expires, or its
// issuer is removed.
type issued struct {
	issuers *oidc.Issuers
	now     func() time.Time
}

// AuthenticateToken implements authenticator.Token.
func (a issued) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if a.issuers == nil {
		return nil, false, nil
	}
	known, err := a.issuers.Authenticate(ctx, token)
	if err != nil || known == nil {
		return nil, false, err
	}
	if !known.Until.After(a.now()) {
		return nil, false, toldError(fmt.Sprintf("the token expired at %s", known.Until.UTC().Format(time.RFC3339)))
	}
	for _, name := range append([]string{known.User.GetName()}, known.User.GetGroups()...) {
		if IsReserved(name) {
			return nil, false, toldError(fmt.Sprintf("the issuer gives the name %q, which comes from the hub alone", name))
		}
	}
	during(ctx, known.During)
	recordCredential(ctx, func(c *Credential) { c.Until = known.Until })
	return known.Response, true, nil
}
