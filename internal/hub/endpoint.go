package hub

import (
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/endpoint"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// endpoints are the URLs under which the hub says it can be reached.
func (c Config) endpoints(advertise []string, own func() []byte) (*endpoint.Set, error) {
	all, err := endpoint.Parse(advertise, c.AdvertiseCA, own)
	if err != nil {
		return nil, err
	}
	return all, all.Check(route.Own)
}

// advertised are the endpoints of a hub that listens on an address.
func advertised(config Config, addr net.Addr, own func() []byte) (*endpoint.Set, error) {
	advertise := config.Advertise
	if len(advertise) == 0 {
		u, err := listening(addr)
		if err != nil {
			return nil, err
		}
		advertise = []string{u}
	}
	all, err := config.endpoints(advertise, own)
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

// spaceURL is where a space is served.
func (h *Hub) spaceURL(s key.Space) string {
	return h.endpoints.Default().URL + route.Space(s).String()
}

// writeAdminKubeconfig writes a kubeconfig of the space root whose user may do
// everything.
func (h *Hub) writeAdminKubeconfig(file string) error {
	pair, err := h.ca.Client(access.AdminUser, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	const name = "orrery"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = clusterOf(h.endpoints.Default(), key.Root)
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	// Written to a new file that is then renamed, so that a reader never sees half of it.
	if err := clientcmd.WriteToFile(*config, file+".new"); err != nil {
		return fmt.Errorf("write %q: %w", file, err)
	}
	if err := os.Chmod(file+".new", 0o600); err != nil {
		return fmt.Errorf("write %q: %w", file, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write %q: %w", file, err)
	}
	return nil
}

// joinOf is a join token for a location, by the endpoint that it prefers.
func (h *Hub) joinOf(l key.Location, token string) (string, error) {
	e, err := h.endpoints.Find(h.preferred(l))
	if err != nil {
		return "", respond.BadRequest("annotation %s of location %q: %v", v1alpha1.EndpointAnnotation, l, err)
	}
	return wire.Join{Hub: e.URL, CA: e.CA, SystemRoots: e.SystemRoots, Location: string(l), Token: token}.Encode(), nil
}

// preferred is the name or URL of the endpoint that a location prefers; empty: none.
func (h *Hub) preferred(l key.Location) string {
	row, _ := h.table.Get(l.Key())
	if row == nil {
		return ""
	}
	return row.Annotation(v1alpha1.EndpointAnnotation)
}

// endpointsFor are the endpoints that the agent of a location is told. A hub that was not
// told how it is reached has agents stay where they are: they hear only whom to trust.
func (h *Hub) endpointsFor(l key.Location) wire.Endpoints {
	if len(h.config.Advertise) == 0 {
		return wire.Endpoints{Endpoints: []wire.Endpoint{{CA: string(h.ca.PEM())}}}
	}
	return h.endpoints.Preferring(h.preferred(l))
}

// clusterOf is a space in a kubeconfig, as it is reached by an endpoint.
func clusterOf(e wire.Endpoint, s key.Space) *clientcmdapi.Cluster {
	return &clientcmdapi.Cluster{Server: e.URL + route.Space(s).String(), CertificateAuthorityData: []byte(e.CA)}
}

// quietTLS sends net/http's messages about single connections to the debug log.
func quietTLS(logger *slog.Logger) *log.Logger {
	return slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
}
