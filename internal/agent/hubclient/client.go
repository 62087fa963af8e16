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
	// maxMessage bounds what is kept of an error's message, and maxStatus what is read of
	// it, in bytes.
	maxMessage = 1024
	maxStatus  = 8 << 10
	// statusTimeout bounds how long that is waited for: a session's request has no end.
	statusTimeout = 20 * time.Second
	jsonLines     = "application/x-ndjson"
	// connectionSilence is after how much silence a connection is pinged, and
	// connectionAnswer how long the hub may take to answer, so that no new request waits
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
	// shows says that the client shows credentials, and needs one.
	shows bool
	// renew is raised when the hub wants the credential to be renewed.
	renew retry.Signal
	// bearer says that certificates do not arrive at the hub.
	bearer atomic.Bool
}

// Config is what a client needs.
type Config struct {
	// Join says where the hub is at first, and who the client is.
	Join wire.Join
	// Agent is the client's User-Agent, and Shard the part of the location that it has.
	Agent string
	Shard key.Shard
	// Dir is the data directory, which keeps where the hub says that it is.
	Dir string
	// Proxy is by which proxy the hub is reached.
	Proxy Proxy
	Log   *slog.Logger
}

// New makes a client of the hub that the join token names. It makes no request before it
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

// Over makes a client that uses a transport of the caller's, which authenticates it, and
// always the same URL.
func Over(transport http.RoundTripper, join wire.Join, agent string, shard key.Shard) *Client {
	r := &reach{log: slog.New(slog.DiscardHandler), moving: retry.NewSignal(), now: endpoint{Endpoint: join.Endpoint()}}
	r.kept = kept{Former: []wire.Endpoint{join.Endpoint()}}
	h := &Client{join: join, agent: agent, shard: shard, reach: r, lines: activeLine{changed: make(chan struct{})}, renew: retry.NewSignal()}
	l := newLine(transport, &connections{})
	l.token, l.shows = join.Token, "the transport's"
	h.lines.replace(l)
	return h
}

// Reached is the URL under which the hub is reached now, and what is trusted there.
func (h *Client) Reached() (hub string, trusts []string) {
	e := h.reach.current()
	return e.URL, e.Fingerprints()
}

// hubError is an answer of the hub with another code than 200.
type hubError struct {
	code    int
	message string
	// after is how long to wait, as the hub asks, before the next request.
	after time.Duration
	// refusal is why the hub does not know the agent; empty: it does, or somebody else
	// has answered.
	refusal wire.Refusal
}

func (e *hubError) Error() string {
	return fmt.Sprintf("the hub answered %d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// do sends a request and returns the answer's body. The caller closes it.
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

// over sends a request over a line and returns the answer, whose body the caller closes.
func (h *Client) over(ctx context.Context, l *line, method, path, token string, body io.Reader) (*http.Response, error) {
	e := h.reach.current()
	req, err := http.NewRequestWithContext(by(ctx, e), method, e.URL+path, body)
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
	req.Header.Set(wire.CapabilitiesHeader, strings.Join([]string{wire.Impersonates, wire.Confirms, wire.Looks, wire.Prefixes, wire.Sees}, ", "))
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
		return nil, fmt.Errorf("the hub speaks protocol %.100q, the agent %q", v, wire.ProtocolVersion)
	}
	return resp, nil
}

// answersFor fails if an answer is not for the agent's shard. A hub of a version without shards
// answers for the whole: what it says of others' spaces would be applied, and their reports
// taken for wrong.
func (h *Client) answersFor(resp *http.Response) error {
	of := resp.Header.Get(wire.ShardHeader)
	if h.shard.Whole() || of == h.shard.String() {
		return nil
	}
	return fmt.Errorf("the hub answers for shard %.20q, and the agent is of %s: is the hub of a version that knows no shards?", of, h.shard)
}

// briefError is an error whose text is fit for a log: who is between agent and hub can have
// an error say anything, at any length.
type briefError struct{ error }

// Error implements error.
func (e briefError) Error() string { return wire.Brief(e.error.Error()) }

// Unwrap is for errors.Is and errors.As.
func (e briefError) Unwrap() error { return e.error }

// hubErrorOf is what an answer with another code than 200 says.
func hubErrorOf(resp *http.Response) *hubError {
	late := time.AfterFunc(statusTimeout, func() { _ = resp.Body.Close() }) // it is not used any more
	defer late.Stop()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus)) // as much as can be read
	e := &hubError{code: resp.StatusCode, message: wire.Clip(strings.TrimSpace(string(b)), maxMessage), after: retryAfterOf(resp.Header)}
	if to, err := resp.Location(); err == nil {
		e.message = fmt.Sprintf("it leads to %s://%s, where the hub has not said that it is", to.Scheme, to.Host)
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

// refused takes note of why the hub does not know the agent.
func (h *Client) refused(l *line, e *hubError) {
	switch {
	case e.refusal == wire.RefusedNone && l.bearer != "":
		h.bearer.Store(true)
	case e.refusal == wire.RefusedExpired:
		h.renew.Raise()
	}
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
func (h *Client) drop() { h.lines.drop() }

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
