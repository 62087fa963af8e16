package access

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

const (
	// AdminUser is the user of the kubeconfig that the hub writes at its start.
	AdminUser      = "orrery:admin"
	locationsGroup = "orrery:locations"
	locationPrefix = "orrery:location:"
)

// authentication accepts certificates of the hub's authority, and tokens: those of
// people and programs, those of locations, and those of issuers.
func authentication(config *Config, fresh *fresh) authenticator.Request {
	verify := func() (x509.VerifyOptions, bool) {
		options := x509request.DefaultVerifyOptions()
		options.Roots = config.Authority.Pool() // another one, while the authority is replaced
		options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		return options, true
	}
	certificates := newKnownCertificates(x509request.NewDynamic(verify, x509request.CommonNameUserConversion), config.Table, config.Now)
	certificates.roots = config.Authority.Pool
	return group.NewAuthenticatedGroupAdder(union.New(
		certificates,
		bearertoken.New(tokenunion.New(tokens{config.Table, fresh, config.Now}, locationTokens{config.Table}, issued{config.Issuers, config.Now})),
	))
}

// locationTokens authenticates agents by the hashed tokens in the log.
type locationTokens struct{ table *table.Table }

func (l locationTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	location, ok := enroll.TokenLocation(token)
	if !ok {
		return nil, false, nil
	}
	row, _ := l.table.Get(key.Enrolment(location))
	of, _ := l.table.Get(location.Key())
	if row == nil || of == nil || !enroll.Verify(token, of.Meta.UID, row.Value) {
		return nil, false, errUnknown
	}
	restOn(ctx, table.Premise{Key: row.Key, Holds: func(now *table.Row) bool { return now != nil && now.ModRev == row.ModRev }})
	return &authenticator.Response{User: &user.DefaultInfo{Name: locationPrefix + string(location), Groups: []string{locationsGroup}}}, true, nil
}

// locationOf is the location that a user is the agent of.
func locationOf(u user.Info) (key.Location, bool) {
	if !slices.Contains(u.GetGroups(), locationsGroup) {
		return "", false
	}
	l, ok := strings.CutPrefix(u.GetName(), locationPrefix)
	return key.Location(l), ok
}
