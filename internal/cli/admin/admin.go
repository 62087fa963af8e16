// Package admin gives an operator access to a hub: it reads the kubeconfig that the hub writes,
// creates clients for each API of the hub, and creates join tokens for locations.
//
// It must access a hub only as a client, over HTTPS.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Hub is a hub, with the access of its operator.
type Hub struct {
	// URL is the URL of the hub.
	URL        string
	kubeconfig *clientcmdapi.Config
}

// Open reads the operator's kubeconfig of the hub at url.
func Open(url, kubeconfig string) (Hub, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return Hub{}, fmt.Errorf("read the operator's kubeconfig %q: %w", kubeconfig, err)
	}
	return Hub{URL: url, kubeconfig: config}, nil
}

// Kubeconfig returns the operator's kubeconfig for a path of the hub, such as spaces/NAME or
// views/locations/NAME; "" is the whole hub.
func (h Hub) Kubeconfig(path string) *clientcmdapi.Config {
	config := h.kubeconfig.DeepCopy()
	for _, cluster := range config.Clusters {
		cluster.Server = h.URL + "/" + strings.TrimLeft(path, "/")
	}
	return config
}

// Config returns the operator's client configuration for a path of the hub. It has no rate limit,
// since the hub divides its capacity between all clients.
func (h Hub) Config(path string) (*rest.Config, error) {
	config, err := clientcmd.NewDefaultClientConfig(*h.Kubeconfig(path), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the operator's kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Client returns an HTTP client with the operator's credential.
func (h Hub) Client() (*http.Client, error) {
	config, err := h.Config("")
	if err != nil {
		return nil, err
	}
	return rest.HTTPClientFor(config)
}

// Enrol creates a join token for a location. It replaces the previous token.
func (h Hub) Enrol(ctx context.Context, location key.Location) (join wire.Join, err error) {
	body, err := h.post(ctx, route.Space(key.Root).Path("apis/"+v1alpha1.Group+"/"+v1alpha1.Version+"/locations/"+string(location)+"/token"))
	var made v1alpha1.LocationToken
	if err == nil {
		err = json.Unmarshal(body, &made)
	}
	if err == nil {
		join, err = wire.ParseJoin(made.Status.Token)
	}
	if err != nil {
		return join, fmt.Errorf("make a token for %q: %w", location, err)
	}
	return join, nil
}

// post sends a POST request without a body, and returns the body of the response.
func (h Hub) post(ctx context.Context, path string) ([]byte, error) {
	client, err := h.Client()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}
