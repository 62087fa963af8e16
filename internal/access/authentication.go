package access

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	"context"

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

// authentication accepts two kinds of credentials: certificates of the hub's authority,
// and the tokens of locations.
func authentication(ca *enroll.Authority, t *table.Table, now func() time.Time) authenticator.Request {
	verify := x509request.DefaultVerifyOptions()
	verify.Roots = ca.Pool()
	verify.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return group.NewAuthenticatedGroupAdder(union.New(
		newKnownCertificates(x509request.New(verify, x509request.CommonNameUserConversion), now),
		bearertoken.New(locationTokens{t}),
	))
}

// locationTokens authenticates agents by the hashed tokens in the log.
type locationTokens struct{ table *table.Table }

func (l locationTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	location, ok := enroll.TokenLocation(token)
	if !ok {
		return nil, false, errors.New("the token is not one of this hub")
	}
	row, _ := l.table.Get(key.Enrolment(location))
	of, _ := l.table.Get(location.Key())
	if row == nil || of == nil || !enroll.Verify(token, of.Meta.UID, row.Value) {
		return nil, false, errors.New("the token is not one of this hub")
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
