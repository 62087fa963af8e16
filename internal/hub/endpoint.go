package hub

import (
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
)

// advertised is the URL under which the hub says it can be reached.
func advertised(config Config, addr net.Addr) (string, error) {
	if config.Advertise != "" {
		u, err := url.Parse(config.Advertise)
		if err != nil {
			return "", fmt.Errorf("advertised URL %q: %w", config.Advertise, err)
		}
		return "https://" + u.Host, nil
	}
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
func serverHosts(hubURL string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if u, err := url.Parse(hubURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// spaceURL is where a space is served.
func (h *Hub) spaceURL(s key.Space) string { return h.url + route.Space(s).String() }

// writeAdminKubeconfig writes a kubeconfig of the space root whose user may do
// everything.
func (h *Hub) writeAdminKubeconfig(file string) error {
	pair, err := h.ca.Client(access.AdminUser, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	const name = "orrery"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: h.spaceURL(key.Root), CertificateAuthorityData: h.ca.PEM()}
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

// quietTLS sends net/http's messages about single connections to the debug log.
func quietTLS(logger *slog.Logger) *log.Logger {
	return slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
}
