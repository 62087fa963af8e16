// Package endpoint contains the advertised URLs of a hub: the name of each, the authorities that
// verify its certificate, and its path prefix.
//
// It must not depend on the client of a request, nor open a connection.
package endpoint

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"orrery.dev/orrery/internal/protocol/wire"
)

// System, in place of a file, means that clients verify the certificate with the authorities of
// their system.
const System = "system"

// maxFile is the maximum size of a file with certificates, in bytes.
const maxFile = 48 << 10

// Set contains the endpoints of a hub; the first is the default. It is safe for concurrent use.
type Set struct {
	all []advertised
	// own returns the hub's own authority.
	own func() []byte
	// read contains the content of the files, by name.
	read atomic.Pointer[map[string]string]
}

// advertised is one endpoint of a Set.
type advertised struct {
	name string
	url  *url.URL
	// trust is a file, System, or empty for the hub's own authority.
	trust string
}

// Parse returns a Set of the advertised URLs, each [NAME=]URL, with their authorities, each
// NAME=FILE or NAME=system. Other URLs use own, the hub's own authority. Reload reads the files,
// not Parse.
func Parse(advertise, trust []string, own func() []byte) (*Set, error) {
	s := &Set{own: own}
	for _, text := range advertise {
		one, err := parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.all, func(o advertised) bool { return o.called(one.name) || o.called(one.url.String()) }) {
			return nil, fmt.Errorf("%q is advertised twice", one.name)
		}
		s.all = append(s.all, one)
	}
	if n := len(s.all); n == 0 || n > wire.MaxEndpoints {
		return nil, fmt.Errorf("%d URLs are advertised: want 1 to %d", n, wire.MaxEndpoints)
	}
	for _, text := range trust {
		name, file, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(s.all, func(o advertised) bool { return o.called(name) })
		if !ok || file == "" || i < 0 {
			return nil, fmt.Errorf("authority %q: want NAME=FILE or NAME=system, with the name of an advertised URL", text)
		}
		s.all[i].trust = file
	}
	return s, nil
}

func parse(text string) (one advertised, err error) {
	name, rest, named := strings.Cut(text, "=")
	if !named || strings.Contains(name, "/") {
		name, rest = "", text
	}
	if one.url, err = wire.ParseHubURL(rest); err != nil {
		return one, fmt.Errorf("advertised URL: %w", err)
	}
	if one.name = name; name == "" {
		one.name = one.url.String()
	}
	return one, nil
}

// called reports whether name is the name or URL of the endpoint.
func (a advertised) called(name string) bool {
	return name == a.name || strings.TrimRight(name, "/") == a.url.String()
}

// Reload reads the files again, and reports whether they have changed. After an error the set is
// unchanged.
func (s *Set) Reload() (changed bool, err error) {
	next := map[string]string{}
	for _, a := range s.all {
		if a.trust == "" || a.trust == System {
			continue
		}
		if next[a.trust], err = readFile(a.trust); err != nil {
			return false, fmt.Errorf("authority of %q: %w", a.name, err)
		}
	}
	last := s.read.Swap(&next)
	if last == nil {
		return true, nil
	}
	for name, text := range next {
		changed = changed || (*last)[name] != text
	}
	return changed, nil
}

// readFile reads the certificates in a file, and ignores all else, such as a key.
func readFile(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%q has more than %d bytes", name, maxFile)
	}
	var text []byte
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("%q: %w", name, err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if len(text) == 0 {
		return "", fmt.Errorf("%q has no certificate", name)
	}
	return string(text), nil
}

// Named is an endpoint and its name.
type Named struct {
	Name string `json:"name"`
	wire.Endpoint
}

// Called reports whether name is the name or URL of the endpoint.
func (n Named) Called(name string) bool {
	return name == n.Name || strings.TrimRight(name, "/") == n.URL
}

// All returns all endpoints, the default first.
func (s *Set) All() []Named {
	all := make([]Named, 0, len(s.all))
	for _, a := range s.all {
		all = append(all, Named{a.name, s.resolve(a)})
	}
	return all
}

// resolve returns the present state of an endpoint.
func (s *Set) resolve(a advertised) wire.Endpoint {
	e := wire.Endpoint{URL: a.url.String()}
	switch a.trust {
	case "":
		e.CA = string(s.own())
	case System:
		e.SystemRoots = true
	default:
		e.CA = (*s.read.Load())[a.trust]
	}
	return e
}

// Default returns the first endpoint.
func (s *Set) Default() wire.Endpoint { return s.resolve(s.all[0]) }

// Find returns the endpoint with a name or URL; the first one if it is empty.
func (s *Set) Find(name string) (wire.Endpoint, error) {
	if name == "" {
		return s.Default(), nil
	}
	names := make([]string, 0, len(s.all))
	for _, a := range s.all {
		if a.called(name) {
			return s.resolve(a), nil
		}
		names = append(names, a.name)
	}
	return wire.Endpoint{}, fmt.Errorf("the hub does not advertise %q, but %s", name, strings.Join(names, ", "))
}

// Preferring returns all endpoints, with the one of a name or URL first. If it does not exist, they
// are in their own order.
func (s *Set) Preferring(name string) wire.Endpoints {
	var e wire.Endpoints
	for _, a := range s.all {
		if name != "" && a.called(name) {
			e.Endpoints = slices.Insert(e.Endpoints, 0, s.resolve(a))
			continue
		}
		e.Endpoints = append(e.Endpoints, s.resolve(a))
	}
	return e
}

// Hosts returns the host names and addresses in the URLs.
func (s *Set) Hosts() []string {
	hosts := make([]string, 0, len(s.all))
	for _, a := range s.all {
		hosts = append(hosts, a.url.Hostname())
	}
	return hosts
}

// Check fails if the path of a URL is one for which taken returns true.
func (s *Set) Check(taken func(path string) bool) error {
	for _, a := range s.all {
		if a.url.Path != "" && taken(a.url.Path) {
			return fmt.Errorf("advertised URL %q: the hub serves something else below %q", a.url, a.url.Path)
		}
	}
	return nil
}

// Strip removes the path prefix of an endpoint from a request, in case a load balancer has left it
// there.
func (s *Set) Strip(r *http.Request) *http.Request {
	longest := ""
	for _, a := range s.all {
		if p := a.url.Path; len(p) > len(longest) && strings.HasPrefix(r.URL.Path, p+"/") {
			longest = p
		}
	}
	if longest == "" {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = u.Path[len(longest):], ""
	if raw, ok := strings.CutPrefix(r.URL.RawPath, longest); ok {
		u.RawPath = raw
	}
	stripped := *r
	stripped.URL = &u
	return &stripped
}
