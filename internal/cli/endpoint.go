package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/endpoint"
	"orrery.dev/orrery/internal/protocol/route"
)

// endpoint returns the hub's endpoint with a name or URL; its default endpoint if name is empty.
func (h *hubClient) endpoint(ctx context.Context, name string) (endpoint.Named, error) {
	var all []endpoint.Named
	if err := h.query(ctx, route.Endpoints, nil, &all); err != nil {
		return endpoint.Named{}, fmt.Errorf("ask where the hub is: %w", err)
	}
	names := make([]string, 0, len(all))
	for _, one := range all {
		if name == "" || one.Called(name) {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return endpoint.Named{}, fmt.Errorf("the hub does not advertise %q, but %s; see: orrery hub --help", name, strings.Join(names, ", "))
}

// preferring returns the annotations of a location whose agent prefers an endpoint; nil for the
// default endpoint if name is empty.
func (h *hubClient) preferring(ctx context.Context, name string) (map[string]string, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no annotations
	}
	e, err := h.endpoint(ctx, name)
	if err != nil {
		return nil, err
	}
	return map[string]string{v1alpha1.EndpointAnnotation: e.Name}, nil
}

// reach sets server, proxy and certificate authorities of a kubeconfig's cluster as the flags
// request. If the hub knows the URL, its present certificate authorities are used, since they may
// be about to change.
func (f *kubeconfigFlags) reach(cmd *cobra.Command, h *hubClient, cluster *clientcmdapi.Cluster) error {
	if f.proxy != "" {
		if err := hasNoPassword(f.proxy); err != nil {
			return badUsage(cmd, "--proxy-url: %v", err)
		}
		cluster.ProxyURL = f.proxy
	}
	e, err := h.endpoint(cmd.Context(), cmp.Or(f.url, h.hub))
	switch {
	case err != nil && f.url == "":
		return nil // the cluster was set by hand to a URL that the hub does not know
	case err != nil:
		return err
	}
	if f.url != "" {
		cluster.Server = e.URL + strings.TrimPrefix(cluster.Server, h.hub)
		cluster.TLSServerName, cluster.InsecureSkipTLSVerify = "", false
	}
	cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", []byte(e.CA)
	return nil
}

// hasNoPassword rejects a URL with a password, since other users could read it in the arguments.
func hasNoPassword(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return errors.New("want http://HOST:PORT or socks5://HOST:PORT")
	}
	if _, secret := u.User.Password(); secret {
		return errors.New("it has a password, which all users of the machine can see: add it to proxy-url in the file")
	}
	return nil
}
