package wire

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// MaxEndpoints is the maximum number of endpoints of a hub.
const MaxEndpoints = 16

// maxEndpoint is the maximum length in bytes of an endpoint's URL, and of its certificates.
const maxEndpoint = 64 << 10

// Endpoint is a URL of the hub, with the authorities that verify the certificate there.
type Endpoint struct {
	// URL is https://HOST[:PORT][/PREFIX], without a slash at its end.
	URL string `json:"url"`
	// CA contains the trusted certificates, PEM-encoded. With SystemRoots, the client trusts the
	// certificates of its system instead.
	CA          string `json:"ca,omitempty"`
	SystemRoots bool   `json:"systemRoots,omitempty"`
}

// Validate returns an error if the endpoint is invalid.
func (e Endpoint) Validate() error {
	u, err := ParseHubURL(e.URL)
	if err == nil && u.String() != e.URL {
		err = fmt.Errorf("hub %q: want %q", e.URL, u)
	}
	switch {
	case err != nil:
		return err
	case len(e.URL)+len(e.CA) > maxEndpoint:
		return fmt.Errorf("hub %q: more than %d bytes", u.Host, maxEndpoint)
	case e.SystemRoots && e.CA != "":
		return fmt.Errorf("hub %q: certificates and those of the system: want one of them", e.URL)
	}
	_, err = e.Roots()
	return err
}

// Roots returns the trusted certificates; nil for those of the system.
func (e Endpoint) Roots() (*x509.CertPool, error) {
	if e.SystemRoots {
		return nil, nil //nolint:nilnil // the convention of crypto/tls
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(e.CA)) {
		return nil, fmt.Errorf("hub %q: ca holds no certificate", e.URL)
	}
	return roots, nil
}

// Fingerprints identify the trusted certificates in output for users.
func (e Endpoint) Fingerprints() []string {
	if e.SystemRoots {
		return []string{"system"}
	}
	return Fingerprints([]byte(e.CA))
}

// Fingerprints returns the first digits of the SHA-256 fingerprints of certificates, PEM-encoded.
func Fingerprints(text []byte) (all []string) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, Fingerprint(block.Bytes))
	}
	return all
}

// Fingerprint returns the fingerprint of a certificate, DER-encoded.
func Fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])[:fingerprint]
}

// fingerprint is the number of digits in a fingerprint.
const fingerprint = 16

// ParseHubURL parses the URL of a hub. The result has no slash at its end.
func ParseHubURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // its message contains the text, which may have a password
		return nil, errors.New("the hub's URL can't be parsed: want https://HOST[:PORT][/PREFIX]")
	}
	plain := u.User == nil && u.RawQuery == "" && u.Fragment == "" && u.RawPath == "" && u.Opaque == ""
	if u.Scheme != "https" || u.Hostname() == "" || !plain {
		shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path} // the rest may contain a password
		return nil, fmt.Errorf("hub %q: want https://HOST[:PORT][/PREFIX]", &shown)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if u.Path != path.Clean("/"+u.Path) && u.Path != "" {
		return nil, fmt.Errorf("hub %q: the path has an empty part or dots", text)
	}
	return u, nil
}

// Endpoints are the endpoints of a hub for a location, the preferred one first. An endpoint without
// a URL has the URL that the agent uses.
type Endpoints struct {
	Endpoints []Endpoint `json:"endpoints"`
}

// WithURL returns the endpoints with url in place of an empty URL.
func (e Endpoints) WithURL(url string) Endpoints {
	all := slices.Clone(e.Endpoints)
	for i := range all {
		all[i].URL = cmp.Or(all[i].URL, url)
	}
	return Endpoints{all}
}

// Validate returns an error if the announced endpoints are invalid, once all have a URL.
func (e Endpoints) Validate() error {
	if n := len(e.Endpoints); n == 0 || n > MaxEndpoints {
		return fmt.Errorf("%d endpoints of the hub: want 1 to %d", n, MaxEndpoints)
	}
	for _, one := range e.Endpoints {
		if err := one.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Equal reports whether two sets of endpoints are the same.
func (e Endpoints) Equal(o Endpoints) bool { return slices.Equal(e.Endpoints, o.Endpoints) }

// Digest returns a digest of the endpoints.
func (e Endpoints) Digest() string {
	b, err := json.Marshal(e)
	if err != nil { // structs of strings always encode
		panic(err)
	}
	return SumOf(b).String()[:32]
}
