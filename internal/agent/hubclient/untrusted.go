package hubclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"orrery.dev/orrery/internal/protocol/wire"
)

// untrustedError is returned when the server at a URL of the hub has a certificate that no trusted
// authority has signed. If the server is the hub, its authority was replaced while the agent was
// not connected. The agent cannot receive the new authority: an operator has to configure it.
type untrustedError struct {
	endpoint wire.Endpoint
	err      error
}

func (e *untrustedError) Error() string {
	return fmt.Sprintf("%s has a certificate that is not signed by an authority that this agent trusts (%s): the hub's authority was replaced while the agent was not connected, or the server is not the hub; "+
		"if it is the hub, start the agent with a new join token, created with: orrery location token NAME (%v)",
		e.endpoint.URL, strings.Join(e.endpoint.Fingerprints(), ", "), e.err)
}

// Unwrap returns the error of the TLS handshake.
func (e *untrustedError) Unwrap() error { return e.err }

// asUntrusted returns an untrustedError if the certificate of an endpoint is not trusted.
func asUntrusted(endpoint wire.Endpoint, err error) error {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return &untrustedError{endpoint, err}
	}
	return err
}
