package hubclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// hubTimeout bounds a request to the hub that is not a stream.
	hubTimeout = time.Minute
	// maxMessage is the maximum size of an error's message, and maxStatus the maximum size of
	// the body from which it is read, in bytes.
	maxMessage = 1024
	maxStatus  = 8 << 10
	// statusTimeout bounds the time for reading the body of an error: the request of a session
	// has no deadline.
	statusTimeout = 20 * time.Second
	jsonLines     = "application/x-ndjson"
	// connectionSilence is the idle time after which a connection is pinged, and
	// connectionAnswer the time within which the hub must respond, so that no new request waits
	// on a dead connection. A healthy hub sends heartbeats more often.
	connectionSilence = heartbeat * 3 / 2
	connectionAnswer  = 15 * time.Second
)

// Client makes the location's requests to the hub. It is safe for concurrent use.
type Client struct {
	join  wire.Join
	agent string
	shard key.Shard
	reach *reach
	proxy Proxy
	lines activeLine
	// shows reports whether the client authenticates with a credential of its own.
	shows bool
	// renew is raised when the hub requests a renewal of the credential.
	renew retry.Signal
	// bearer is set once client certificates turn out not to reach the hub.
	bearer atomic.Bool
}

// Config is the configuration of a client.
type Config struct {
	// Join has the first endpoint of the hub, and the location of the client.
	Join wire.Join
	// Agent is the client's User-Agent, and Shard its shard of the location.
	Agent string
	Shard key.Shard
	// Dir is the data directory, which stores the endpoints that the hub announces.
	Dir string
	// Proxy is the proxy to the hub.
	Proxy Proxy
	Log   *slog.Logger
}

// New returns a client of the hub that the join token names. It sends no request before it
// has a credential.
func New(config Config) (*Client, error) {
	if err := config.Proxy.Validate(); err != nil {
		return nil, err
	}
	r, err := newReach(config.Join, config.Dir, config.Log)
	if err != nil {
		return nil, err
	}
	return &Client{
		join: config.Join, agent: config.Agent, shard: config.Shard, reach: r, proxy: config.Proxy, shows: true,
		lines: activeLine{changed: make(chan struct{})}, renew: retry.NewSignal(),
	}, nil
}

// Over returns a client that always uses the same URL and the caller's transport, which
// authenticates it.
func Over(transport http.RoundTripper, join wire.Join, agent string, shard key.Shard) *Client {
	r := &reach{log: slog.New(slog.DiscardHandler), moving: retry.NewSignal(), now: endpoint{Endpoint: join.Endpoint()}}
	r.kept = kept{Former: []wire.Endpoint{join.Endpoint()}}
	h := &Client{join: join, agent: agent, shard: shard, reach: r, lines: activeLine{changed: make(chan struct{})}, renew: retry.NewSignal()}
	l := newLine(transport, &connections{})
	l.token, l.shows = join.Token, "the transport's"
	h.lines.replace(l)
	return h
}

// Reached returns the current URL of the hub, and the fingerprints of the authorities that are
// trusted there.
func (h *Client) Reached() (hub string, trusts []string) {
	e := h.reach.current()
	return e.URL, e.Fingerprints()
}

// hubError is a response of the hub with a code other than 200.
type hubError struct {
	code    int
	message string
	// after is the time that the hub asks the client to wait before the next request.
	after time.Duration
	// refusal is the reason why the hub does not authenticate the agent; empty if it does, or
	// if the response is not from a hub.
	refusal wire.Refusal
}

func (e *hubError) Error() string {
	return fmt.Sprintf("the hub answered %d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// do sends a request and returns the body of the response. The caller must close it.
func (h *Client) do(ctx context.Context, method, call string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	l, done, err := h.lines.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	token := l.token
	if h.bearer.Load() && l.bearer != "" {
		token = l.bearer
	}
	ctx, cancel := during(ctx, l.all)
	path := route.Agent(key.Location(h.join.Location)).Path(call)
	if !h.shard.Whole() {
		if query == nil {
			query = url.Values{}
		}
		query.Set(wire.ShardParam, h.shard.String())
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	end := func() { cancel(); done() }
	answer, err := h.over(ctx, l, method, path, token, body)
	if err != nil {
		end()
		if refused, ok := errors.AsType[*hubError](err); ok {
			h.refused(l, refused)
		}
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	if err := h.answersFor(answer); err != nil {
		end()
		return nil, errors.Join(fmt.Errorf("%s: %w", call, err), answer.Body.Close())
	}
	return &answerBody{answer.Body, end}, nil
}

// over sends a request over a line and returns the response. The caller must close its body.
func (h *Client) over(ctx context.Context, l *line, method, path, token string, body io.Reader) (*http.Response, error) {
	e := h.reach.current()
	req, err := http.NewRequestWithContext(withEndpoint(ctx, e), method, e.URL+path, body)
	if err != nil {
		return nil, err
	}
	wire.InPieces(req)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("User-Agent", h.agent)
	req.Header.Set("Content-Type", jsonLines)
	req.Header.Set(wire.Header, wire.ProtocolVersion)
	req.Header.Set(wire.CapabilitiesHeader, strings.Join([]string{wire.Impersonates, wire.Confirms, wire.Inspects, wire.Prefixes, wire.Upsyncs}, ", "))
	resp, err := l.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errRenewed) {
			return nil, cause
		}
		return nil, briefError{asUntrusted(e.Endpoint, err)}
	}
	if resp.Header.Get(wire.RenewHeader) != "" {
		h.renew.Raise()
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, hubErrorOf(resp)
	}
	if v := resp.Header.Get(wire.Header); v != wire.ProtocolVersion {
		defer resp.Body.Close()
		return nil, fmt.Errorf("the hub uses protocol version %.100q, the agent %q", v, wire.ProtocolVersion)
	}
	return resp, nil
}

// answersFor fails if a response is not for the agent's shard. A hub of a version without shards
// sends the objects of the whole location: the agent would also apply those of other shards, and
// consider their reports wrong.
func (h *Client) answersFor(resp *http.Response) error {
	shard := resp.Header.Get(wire.ShardHeader)
	if h.shard.Whole() || shard == h.shard.String() {
		return nil
	}
	return fmt.Errorf("the hub responded for shard %.20q instead of %s: is the hub of a version without shards?", shard, h.shard)
}

// briefError is an error with a short text of printable characters. A proxy between agent and
// hub could put text of any length and content into the original error.
type briefError struct{ error }

// Error implements error.
func (e briefError) Error() string { return wire.Brief(e.error.Error()) }

// Unwrap returns the original error.
func (e briefError) Unwrap() error { return e.error }

// hubErrorOf returns the error for a response with a code other than 200.
func hubErrorOf(resp *http.Response) *hubError {
	late := time.AfterFunc(statusTimeout, func() { _ = resp.Body.Close() }) // the body is not used any more
	defer late.Stop()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus)) // a partial message is better than none
	e := &hubError{code: resp.StatusCode, message: wire.Clip(strings.TrimSpace(string(b)), maxMessage), after: retryAfterOf(resp.Header)}
	if to, err := resp.Location(); err == nil {
		e.message = fmt.Sprintf("it redirects to %s://%s, which is not an endpoint that the hub has announced", to.Scheme, to.Host)
	}
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Details struct {
			Causes []struct {
				Reason wire.Refusal `json:"reason"`
			} `json:"causes"`
		} `json:"details"`
	}
	if json.Unmarshal(b, &status) == nil && status.Kind == "Status" && status.Message != "" {
		e.message = wire.Clip(status.Message, maxMessage)
		if e.code == http.StatusUnauthorized && len(status.Details.Causes) > 0 {
			e.refusal = status.Details.Causes[0].Reason
		}
	}
	return e
}

// refused acts on the reason for which the hub does not authenticate the agent.
func (h *Client) refused(l *line, e *hubError) {
	switch {
	case e.refusal == wire.RefusedNone && l.bearer != "":
		h.bearer.Store(true)
	case e.refusal == wire.RefusedExpired:
		h.renew.Raise()
	}
}

// send posts a body that write encodes while it is sent, and returns the body of the response.
// The caller must close it.
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
	_ = r.Close() // always nil; it unblocks the writer if the hub did not read all
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

// drop closes all connections, so that the next request opens a new one; requests in progress
// fail.
func (h *Client) drop() { h.lines.drop() }

// maxRetryAfter bounds the wait that a hub can ask for.
const maxRetryAfter = time.Minute

// retryAfterOf returns the time that a response asks the client to wait before the next request.
func retryAfterOf(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// asksToWait returns the time that the hub asks the client to wait, if the error is a response.
func asksToWait(err error) time.Duration {
	if refused, ok := errors.AsType[*hubError](err); ok {
		return refused.after
	}
	return 0
}
