package enroll

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/protocol/key"
)

// scopeScheme is that of the URI by which a certificate is limited to one space:
// orrery-space://NAME/UID.
const scopeScheme = "orrery-space"

// maxRSA bounds keys of RSA, in bits, as TLS does: to use a large one takes long.
const maxRSA = 8192

// Person issues the certificate of a user in groups for the key of a signing request, and
// returns it as PEM. Nothing else of the request counts. With a scope it is good for one space
// alone.
func (a *Authority) Person(request []byte, user string, groups []string, scope *bearer.Scope, life time.Duration) ([]byte, error) {
	public, err := publicKeyOf(request)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if scope != nil {
		template.URIs = []*url.URL{{Scheme: scopeScheme, Host: string(scope.Space), Path: "/" + scope.UID}}
	}
	der, err := a.sign(template, public, a.now().Add(life))
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func publicKeyOf(request []byte) (any, error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("the certificate request is not PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate request: %w", err)
	}
	if k, ok := csr.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > maxRSA {
		return nil, fmt.Errorf("the key of the certificate request has %d bits: want at most %d", k.N.BitLen(), maxRSA)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check the certificate request: %w", err)
	}
	return csr.PublicKey, nil
}

// ScopeOf is the space that a certificate is limited to; nil: it is to none.
func ScopeOf(c *x509.Certificate) *bearer.Scope {
	i := slices.IndexFunc(c.URIs, func(u *url.URL) bool { return u.Scheme == scopeScheme })
	if i < 0 {
		return nil
	}
	return &bearer.Scope{Space: key.Space(c.URIs[i].Host), UID: strings.TrimPrefix(c.URIs[i].Path, "/")}
}
