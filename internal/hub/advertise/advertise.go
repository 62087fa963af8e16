// Package advertise manages the advertised URLs and the certificate of a hub. It provides both to
// joining agents, connected agents and the administrator's kubeconfig. It reloads the files of
// certificate authorities while the hub runs.
//
// It must not authorize requests.
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

// Config configures Endpoints.
type Config struct {
	// Addr is the address that the hub listens on.
	Addr net.Addr
	// Advertise are the URLs of the hub for clients and agents, each [NAME=]URL, the default first.
	// If it is empty, one URL is derived from Addr. AdvertiseCA are the authorities for these URLs,
	// each NAME=FILE or NAME=system, where it is not Authority.
	Advertise, AdvertiseCA []string
	// Kubeconfig is the file of the administrator's kubeconfig.
	Kubeconfig string
	// Authority is the hub's own certificate authority.
	Authority *enroll.Authority
	// Table contains the Locations, which may prefer one of the URLs.
	Table *table.Table
	// Changed is called when agents must receive the trusted authorities again.
	Changed func()
	// Logger logs changes, and errors of reloads.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Endpoints are the advertised URLs of a hub. It is safe for concurrent use.
type Endpoints struct {
	config Config
	urls   *endpoint.Set
	// cert is the server certificate, and clients are the open connections.
	cert    *serverCertificate
	clients clients
}

// Open returns the Endpoints for a configuration.
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

// Check returns an error if the advertised URLs or authorities are invalid.
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

// advertised returns the endpoints of a hub.
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

// listening returns the URL of an address that the hub listens on.
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

// serverHosts returns the host names and addresses for the server's certificate.
func serverHosts(advertised []string) []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, advertised...)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// URL returns the default URL.
func (c *Endpoints) URL() string { return c.urls.Default().URL }

// All returns all endpoints, the default first.
func (c *Endpoints) All() []endpoint.Named { return c.urls.All() }

// Strip removes the path prefix of an endpoint from a request, in case a load balancer has left it
// there.
func (c *Endpoints) Strip(r *http.Request) *http.Request { return c.urls.Strip(r) }

// SpaceURL returns the URL of a space.
func (c *Endpoints) SpaceURL(s key.Space) string { return c.URL() + route.Space(s).String() }

// ExportViewURL returns the URL of an export view. Below it, each space is at spaces/NAME, and all
// spaces are at spaces/*.
func (c *Endpoints) ExportViewURL(f key.ExportView) string {
	return c.URL() + strings.TrimSuffix(route.ExportViewRoot(f, "").String(), "/spaces/")
}

// Join returns a join token for a location, with the endpoint that it prefers.
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

// preferred returns the name or URL of the endpoint that a location prefers; empty for none.
func (c *Endpoints) preferred(l key.Location) string {
	row, _ := c.config.Table.Get(l.Key())
	if row == nil {
		return ""
	}
	return row.Annotation(v1alpha1.EndpointAnnotation)
}

// For returns the endpoints for the agent of a location. Without --advertise, agents keep their
// URL, and receive only the trusted authorities.
func (c *Endpoints) For(l key.Location) wire.Endpoints {
	if len(c.config.Advertise) == 0 {
		return wire.Endpoints{Endpoints: []wire.Endpoint{{CA: string(c.config.Authority.PEM())}}}
	}
	return c.urls.Preferring(c.preferred(l))
}
