package cli

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// followTimeout bounds how long a command waits for the hub to take over a step, and followInterval is how
	// often it checks.
	followTimeout, followInterval = 10 * time.Second, 50 * time.Millisecond
	// dialTimeout bounds how long it takes to find out that no hub listens.
	dialTimeout = time.Second
)

// awaitReload waits until the hub of a data directory has taken over the files of the authority, so that the next
// command uses a kubeconfig of them. It does not wait for a hub that does not listen. It reports whether a hub
// listens that has not taken them over in time.
func awaitReload(ctx context.Context, dir string) (isLate bool) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	for {
		config, err := clientcmd.LoadFromFile(filepath.Join(dir, "admin.kubeconfig"))
		if err != nil {
			return false // no hub has been here
		}
		ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil || isOf(config, ca) || !listens(ctx, config) {
			return false
		}
		if ctx.Err() != nil {
			return true
		}
		retry.Pause(ctx, followInterval)
	}
}

// isOf reports whether a kubeconfig that the hub has written is of the certificates in ca, of which the first one
// signs. It trusts all of them, unless it trusts what was given for an advertised URL instead.
func isOf(config *clientcmdapi.Config, ca []byte) bool {
	c := config.Contexts[config.CurrentContext]
	if c == nil || config.AuthInfos[c.AuthInfo] == nil || config.Clusters[c.Cluster] == nil {
		return true // it is another's
	}
	authorities, err := cert.ParseCertsPEM(ca)
	if err != nil {
		return true // which the hub says, too
	}
	client, err := cert.ParseCertsPEM(config.AuthInfos[c.AuthInfo].ClientCertificateData)
	if err != nil || client[0].CheckSignatureFrom(authorities[0]) != nil {
		return false
	}
	trusts := config.Clusters[c.Cluster].CertificateAuthorityData
	trusted, err := cert.ParseCertsPEM(trusts)
	isOurs := err == nil && slices.ContainsFunc(authorities, trusted[0].Equal)
	return !isOurs || bytes.Equal(trusts, ca)
}

// listens reports whether a program listens where a kubeconfig has the hub.
func listens(ctx context.Context, config *clientcmdapi.Config) bool {
	c := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	u, err := url.Parse(c.Server)
	if err != nil {
		return false
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return ctx.Err() != nil // what is not known in time is late
	}
	_ = conn.Close()
	return true
}
