package auth

import (
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

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/key"
)

// AdminUser is the user of the kubeconfig that the hub writes at its start.
const AdminUser = "orrery:admin"

// authentication accepts certificates of the hub's authority, tokens of users and programs, and
// tokens of issuers. Enrolments authenticate agents.
func authentication(config *Config, fresh *fresh) authenticator.Request {
	verify := func() (x509.VerifyOptions, bool) {
		options := x509request.DefaultVerifyOptions()
		options.Roots = config.Authority.Pool() // changes while the authority is replaced
		options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		return options, true
	}
	certificates := newKnownCertificates(x509request.NewDynamic(verify, x509request.CommonNameUserConversion), config.Table, config.Now)
	certificates.roots = config.Authority.Pool
	return group.NewAuthenticatedGroupAdder(union.New(
		certificates,
		bearertoken.New(tokenunion.New(tokens{config.Table, fresh, config.Now}, issued{config.Issuers, config.Now})),
	))
}

// locationOf returns the location whose agent a user is.
func locationOf(u user.Info) (key.Location, bool) {
	if !slices.Contains(u.GetGroups(), enroll.Agents) {
		return "", false
	}
	l, ok := strings.CutPrefix(u.GetName(), enroll.UserPrefix)
	return key.Location(l), ok
}
