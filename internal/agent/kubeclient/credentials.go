package kubeclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// reloadAfter is the age at which a request reads the configuration of the target again, and
	// rejectedAfter is that age if the target rejects the credentials or its certificate is not trusted.
	reloadAfter   = 30 * time.Second
	rejectedAfter = time.Second
	// reloadWithin bounds how long requests wait for that: its files can be on a file system that does
	// not answer.
	reloadWithin = 2 * time.Second
)

// errSlowConfiguration is returned while the configuration is being read for longer than requests wait.
var errSlowConfiguration = fmt.Errorf("the kubeconfig, or a file that it names, can't be read within %s", reloadWithin)

// errOtherServer is returned when the configuration names another server than at the start.
var errOtherServer = errors.New("the kubeconfig names another server now: start the agent again")

// errNoCredentials is returned for a configuration without credentials if the first one had some: the file is being
// written. Without credentials, a target could take the agent for an anonymous user.
var errNoCredentials = errors.New("the kubeconfig has no credentials now")

// credentials holds the HTTP client of the target, and replaces it when the configuration has
// changed: the kubeconfig was replaced, or a file that it names. The server always stays the same.
// client-go itself runs exec plugins again.
type credentials struct {
	host string
	// authenticated reports whether the first configuration had credentials.
	authenticated bool

	client atomic.Pointer[http.Client]
	log    *slog.Logger

	mu   sync.Mutex
	read func() (*rest.Config, error) // nil: the configuration never changes
	// readTime is the start of the last reading of the configuration, and state its result.
	readTime time.Time
	state    string
	// reading is closed at the end of the current reading; nil if there is none.
	reading chan struct{}
	// err is the error of the last reading, if the configuration could not be used.
	err error
}

// newCredentials returns the credentials of a configuration.
func newCredentials(config *rest.Config, log *slog.Logger) (*credentials, error) {
	c := &credentials{host: config.Host, authenticated: isAuthenticated(config), log: log, readTime: time.Now()}
	client, state, err := clientFor(config)
	if err != nil {
		return nil, err
	}
	c.state = state
	c.client.Store(client)
	return c, nil
}

// clientFor makes an HTTP client, and the text that differs if the configuration does. The files that the
// configuration names are read, so that another content makes another client.
func clientFor(config *rest.Config) (*http.Client, string, error) {
	c := rest.CopyConfig(config)
	c.Timeout = 0 // it would end watches
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, "", err
	}
	c.CAFile, c.CertFile, c.KeyFile = "", "", ""
	if c.BearerTokenFile != "" { // client-go would read it once a minute, and not when the token is rejected
		token, err := os.ReadFile(c.BearerTokenFile)
		if err != nil {
			return nil, "", fmt.Errorf("read the token file: %w", err)
		}
		c.BearerToken, c.BearerTokenFile = strings.TrimSpace(string(token)), ""
		if c.BearerToken == "" {
			return nil, "", errors.New("read the token file: it is empty")
		}
	}
	proxy := ""
	if c.Proxy != nil {
		if to, err := http.NewRequest(http.MethodGet, c.Host, http.NoBody); err == nil { //nolint:noctx // it is never sent
			if u, err := c.Proxy(to); err == nil && u != nil {
				proxy = u.String()
			}
		}
	}
	state, err := json.Marshal([]any{
		c.Host, c.APIPath, c.Username, c.Password, c.BearerToken, c.Impersonate, c.ExecProvider, c.AuthProvider, proxy,
		c.Insecure, c.ServerName, c.CAData, c.CertData, c.KeyData,
	})
	if err != nil {
		return nil, "", fmt.Errorf("encode the client configuration: %w", err)
	}
	client, err := rest.HTTPClientFor(c)
	return client, string(state), err
}

// use sends a request by the HTTP client that is current, and once more by another one if the request was not
// authenticated and the configuration has changed.
func (c *credentials) use(ctx context.Context, send func(*http.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	_, _ = c.renew(ctx, c.client.Load(), reloadAfter) // the last credentials may still be good
	client := c.client.Load()
	body, err := send(client)
	if !unauthenticated(err) {
		return body, err
	}
	renewed, reload := c.renew(ctx, client, rejectedAfter)
	if renewed {
		body, err = send(c.client.Load())
	}
	if apierrors.IsUnauthorized(err) {
		err = rejected(err, reload)
	}
	return body, err
}

// expire makes the next request read the configuration.
func (c *credentials) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readTime = time.Time{}
}

// renew reads the configuration if the last reading is older than age, and replaces the HTTP client used if the
// configuration has changed. It reports whether the client was replaced; err is the reason why the configuration
// cannot be used. One goroutine reads, and requests wait for it at most until reloadWithin after its start.
func (c *credentials) renew(ctx context.Context, used *http.Client, age time.Duration) (renewed bool, err error) {
	reading, began := c.reload(used, age)
	if reading == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.client.Load() != used, c.err
	}
	late := time.NewTimer(time.Until(began.Add(reloadWithin)))
	defer late.Stop()
	select {
	case <-reading:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.client.Load() != used, c.err
	case <-late.C:
		return c.client.Load() != used, errSlowConfiguration
	case <-ctx.Done():
		return c.client.Load() != used, ctx.Err()
	}
}

// reload starts to read the configuration if that is due. It returns the time of the start, and a channel that is
// closed at the end; nil if the configuration is not being read.
func (c *credentials) reload(used *http.Client, age time.Duration) (reading <-chan struct{}, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.reading != nil || c.read == nil || c.client.Load() != used || time.Since(c.readTime) < age:
	default:
		c.reading, c.readTime = make(chan struct{}), time.Now()
		go c.replace(used)
	}
	return c.reading, c.readTime
}

// replace reads the configuration, and replaces the HTTP client if the configuration has changed.
func (c *credentials) replace(used *http.Client) {
	client, state, err := c.load()
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.reading)
	c.reading = nil
	if previous := c.err; err != nil && (previous == nil || previous.Error() != err.Error()) {
		c.log.Warn("the configuration of the cluster can't be read again; the agent goes on with the last one", "error", err)
	}
	c.err = err
	if err != nil || state == c.state {
		return
	}
	c.state = state
	c.client.Store(client)
	utilnet.CloseIdleConnectionsFor(used.Transport)
	c.log.Info("the agent uses the new credentials for its cluster")
}

// load reads the configuration and returns a client for it.
func (c *credentials) load() (*http.Client, string, error) {
	config, err := c.read()
	if err != nil {
		return nil, "", err
	}
	if config.Host != c.host {
		return nil, "", fmt.Errorf("%w: %q instead of %q", errOtherServer, config.Host, c.host)
	}
	if !isAuthenticated(config) && c.authenticated {
		return nil, "", errNoCredentials
	}
	return clientFor(config)
}

// isAuthenticated reports whether a configuration has any credentials.
func isAuthenticated(c *rest.Config) bool {
	return c.Username != "" || c.BearerToken != "" || c.BearerTokenFile != "" || c.CertFile != "" || len(c.CertData) > 0 ||
		c.ExecProvider != nil || c.AuthProvider != nil
}

// unauthenticated reports whether client or target failed to authenticate the other, so that the target did not
// carry out the request.
func unauthenticated(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return apierrors.IsUnauthorized(err) || errors.As(err, &untrusted)
}

// rejected adds the cause to the error of a request that the target did not authenticate. reload is the error of
// reading other credentials, if any.
func rejected(err, reload error) error {
	if reload != nil {
		return fmt.Errorf("the API server rejects the agent's credentials, and they can't be read again: %w: %w", reload, err)
	}
	return fmt.Errorf("the API server rejects the agent's credentials: %w", err)
}
