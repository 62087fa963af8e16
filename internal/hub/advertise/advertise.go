// Package advertise is how a hub is reached and by what it is trusted: the URLs that it
// advertises, the certificate that it shows there, what joining agents, connected agents and
// the operator's kubeconfig are told of both, and taking over what changes in the files of
// authorities while the hub runs.
//
// It must never decide who may do what.
package advertise

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/endpoint"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Config is what a Endpoints needs.
type Config struct {
	// Addr is the address that the hub listens on.
	Addr net.Addr
	// Advertise are the URLs under which clients and agents reach the hub, each [NAME=]URL,
	// the default first; if empty, one is derived from Addr. AdvertiseCA says what is
	// trusted there, each NAME=FILE or NAME=system, where that is not the authority.
	Advertise, AdvertiseCA []string
	// Kubeconfig is the file of the operator's kubeconfig.
	Kubeconfig string
	// Authority is the hub's own.
	Authority *enroll.Authority
	// Table has the Locations, which may prefer one of the URLs.
	Table *table.Table
	// Changed is called when agents are to be told again what is trusted.
	Changed func()
	// Logger gets what has changed, or can't be taken over.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Endpoints is how a hub is reached. It is safe for concurrent use.
type Endpoints struct {
	config Config
	urls   *endpoint.Set
	// cert is what is shown to clients, and clients are those with open connections.
	cert    *serverCertificate
	clients clients
}

// Open makes a Endpoints.
func Open(config Config) (*Endpoints, error) {
	urls, err := advertised(&config)
	if err != nil {
		return nil, err
	}
	c := &Endpoints{config: config, urls: urls}
	c.cert = &serverCertificate{ca: config.Authority, hosts: serverHosts(urls.Hosts()), now: config.Now}
	if _, err := c.cert.get(nil); err != nil {
		return nil, err
	}
	return c, nil
}

// Check says what is wrong with what is to be advertised.
func Check(advertise, trust []string) error {
	_, err := parse(advertise, trust, nil)
	return err
}

func parse(advertise, trust []string, own func() []byte) (*endpoint.Set, error) {
	all, err := endpoint.Parse(advertise, trust, own)
	if err != nil {
		return nil, err
	}
	return all, all.Check(route.Own)
}

// advertised are the endpoints of a hub.
func advertised(config *Config) (*endpoint.Set, error) {
	advertise := config.Advertise
	if len(advertise) == 0 {
		u, err := listening(config.Addr)
		if err != nil {
			return nil, err
		}
		advertise = []string{u}
	}
	all, err := parse(advertise, config.AdvertiseCA, config.Authority.PEM)
	if err != nil {
		return nil, err
	}
	_, err = all.Reload()
	return all, err
}

// listening is the URL of an address that the hub listens on.
func listening(addr net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", fmt.Errorf("listen address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("find this host's name: %w", err)
		}
	}
	return "https://" + net.JoinHostPort(host, port), nil
}

// serverHosts are the names and addresses that the server's certificate is for.
func serverHosts(advertised []string) []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, advertised...)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// URL is the one that is told to those who do not ask for another.
func (c *Endpoints) URL() string { return c.urls.Default().URL }

// All are all endpoints, the default first.
func (c *Endpoints) All() []endpoint.Named { return c.urls.All() }

// Strip is a request without the path of the URL that it was sent to, if a balancer has
// left that in it.
func (c *Endpoints) Strip(r *http.Request) *http.Request { return c.urls.Strip(r) }

// SpaceURL is where a space is served.
func (c *Endpoints) SpaceURL(s key.Space) string { return c.URL() + route.Space(s).String() }

// ShelfURL is where a shelf is served: below it, each space at spaces/NAME, and all at
// spaces/*.
func (c *Endpoints) ShelfURL(f key.Shelf) string {
	return c.URL() + strings.TrimSuffix(route.ShelfRoot(f, "").String(), "/spaces/")
}

// Join is a join token for a location, by the endpoint that it prefers.
func (c *Endpoints) Join(l key.Location, token string) (string, error) {
	e, err := c.urls.Find(c.preferred(l))
	if err != nil {
		return "", respond.BadRequest("annotation %s of location %q: %v", v1alpha1.EndpointAnnotation, l, err)
	}
	join := wire.Join{Hub: e.URL, CA: e.CA, SystemRoots: e.SystemRoots, Location: string(l), Token: token}
	if _, shard, ok := enroll.TokenOf(token); ok && shard > 1 {
		join.Shard = shard
	}
	return join.Encode(), nil
}

// preferred is the name or URL of the endpoint that a location prefers; empty: none.
func (c *Endpoints) preferred(l key.Location) string {
	row, _ := c.config.Table.Get(l.Key())
	if row == nil {
		return ""
	}
	return row.Annotation(v1alpha1.EndpointAnnotation)
}

// For are the endpoints that the agent of a location is told. A hub that was not told how
// it is reached has agents stay where they are: they hear only whom to trust.
func (c *Endpoints) For(l key.Location) wire.Endpoints {
	if len(c.config.Advertise) == 0 {
		return wire.Endpoints{Endpoints: []wire.Endpoint{{CA: string(c.config.Authority.PEM())}}}
	}
	return c.urls.Preferring(c.preferred(l))
}
