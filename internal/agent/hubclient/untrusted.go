package hubclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"orrery.dev/orrery/internal/protocol/wire"
)

// untrustedError says that who answers under a URL of the hub shows a certificate of no
// authority that is trusted there. If that is the hub, the agent has not heard of its new
// authority, and can hear of it nowhere: somebody has to say at the site whom to trust.
type untrustedError struct {
	at  wire.Endpoint
	err error
}

func (e *untrustedError) Error() string {
	return fmt.Sprintf("%s shows a certificate that none of the authorities has signed which this agent trusts (%s): the hub's was replaced while the agent was away, or somebody else answers; "+
		"if it is the hub, start the agent with a new join token, which is made by: orrery location token NAME (%v)",
		e.at.URL, strings.Join(e.at.Fingerprints(), ", "), e.err)
}

// Unwrap is for errors.Is and errors.As.
func (e *untrustedError) Unwrap() error { return e.err }

// asUntrusted puts into words that the certificate of an endpoint is not trusted.
func asUntrusted(at wire.Endpoint, err error) error {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return &untrustedError{at, err}
	}
	return err
}
