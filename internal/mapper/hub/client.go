package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

const (
	// hubTimeout bounds a request to the hub that is not a stream.
	hubTimeout = time.Minute
	// maxMessage bounds what is read of an error's message, in bytes.
	maxMessage = 1024
	jsonLines  = "application/x-ndjson"
	// connectionSilence is after how much silence a connection is pinged, and
	// connectionAnswer how long the hub may take to answer, so that no new request waits
	// on a dead connection. A healthy hub sends heartbeats more often.
	connectionSilence = heartbeat * 3 / 2
	connectionAnswer  = 15 * time.Second
)

// Client makes the location's requests to the hub. It is safe for concurrent use.
type Client struct {
	join        wire.Join
	agent       string
	client      *http.Client
	connections *connections
}

// New makes a client of the hub that the join token names. agent is its User-Agent.
func New(join wire.Join, agent string) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(join.CA)) {
		return nil, errors.New("join token: ca holds no certificate")
	}
	conns := &connections{open: map[*connection]struct{}{}}
	c := Over(&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           conns.dial,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: connectionSilence, PingTimeout: connectionAnswer},
		ResponseHeaderTimeout: hubTimeout,
		TLSHandshakeTimeout:   20 * time.Second,
		IdleConnTimeout:       2 * time.Minute,
	}, join, agent)
	c.connections = conns
	return c, nil
}

// Over makes a client that uses a transport of the caller's.
func Over(transport http.RoundTripper, join wire.Join, agent string) *Client {
	return &Client{join: join, agent: agent, connections: &connections{}, client: &http.Client{Transport: transport}}
}

// hubError is an answer of the hub with another code than 200.
type hubError struct {
	code    int
	message string
	// after is how long to wait, as the hub asks, before the next request.
	after time.Duration
}

func (e *hubError) Error() string {
	return fmt.Sprintf("the hub answered %d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// do sends a request and returns the answer's body. The caller closes it.
func (h *Client) do(ctx context.Context, method, call string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	u := strings.TrimRight(h.join.Hub, "/") + route.Agent(key.Location(h.join.Location)).Path(call)
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	req.Header.Set("Authorization", "Bearer "+h.join.Token)
	req.Header.Set("User-Agent", h.agent)
	req.Header.Set("Content-Type", jsonLines)
	req.Header.Set(wire.Header, wire.ProtocolVersion)
	req.Header.Set(wire.CapabilitiesHeader, wire.Impersonates)
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage)) // as much as can be read
		return nil, fmt.Errorf("%s: %w", call, &hubError{
			code: resp.StatusCode, message: strings.TrimSpace(string(b)), after: retryAfterOf(resp.Header),
		})
	}
	if v := resp.Header.Get(wire.Header); v != wire.ProtocolVersion {
		defer resp.Body.Close()
		return nil, fmt.Errorf("%s: the hub speaks protocol %q, the agent %q", call, v, wire.ProtocolVersion)
	}
	return resp.Body, nil
}

// send posts a body that write encodes while it is sent, and returns the answer's body.
// The caller closes it.
func (h *Client) send(ctx context.Context, call string, write func(*wire.Encoder) error) (io.ReadCloser, error) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffered := bytes.NewBuffer(make([]byte, 0, 64<<10))
		err := write(wire.NewEncoder(&flushAt{to: w, buffer: buffered}))
		if err == nil {
			_, err = w.Write(buffered.Bytes())
		}
		_ = w.CloseWithError(err) // always nil
	}()
	body, err := h.do(ctx, http.MethodPost, call, nil, r)
	_ = r.Close() // always nil; it ends the writer if the hub did not read all
	<-done
	return body, err
}

// flushAt buffers small writes.
type flushAt struct {
	to     io.Writer
	buffer *bytes.Buffer
}

func (f *flushAt) Write(b []byte) (int, error) {
	n, err := f.buffer.Write(b)
	if err == nil && f.buffer.Len() >= 32<<10 {
		_, err = f.buffer.WriteTo(f.to)
	}
	return n, err
}

// drop closes all connections, so that the next request starts anew; those under
// way fail.
func (h *Client) drop() { h.connections.drop() }

// maxRetryAfter bounds the wait that a hub can ask for.
const maxRetryAfter = time.Minute

// retryAfterOf is how long an answer asks to wait before the next request.
func retryAfterOf(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// asksToWait is how long the hub asks to wait, if the error is its answer.
func asksToWait(err error) time.Duration {
	if refused, ok := errors.AsType[*hubError](err); ok {
		return refused.after
	}
	return 0
}
