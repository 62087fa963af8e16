package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Client makes the calls of a location's agent, one at a time. It has no state of objects; the caller
// keeps that.
type Client struct {
	// Join names the hub and the location. If it has a token, each request sends it.
	Join wire.Join
	HTTP *http.Client
	// Capabilities is the value of wire.CapabilitiesHeader.
	Capabilities string
	// Identity is the identity by which the hub authenticates the client; nil if HTTP or Join have it.
	Identity *Identity
}

// NewClient exchanges the join token for a certificate, and returns a client with it, and with
// connections of its own. Close closes them.
func NewClient(join wire.Join) (*Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	id, err := Enrol(ctx, join)
	if err != nil {
		return nil, err
	}
	return id.Client()
}

// Close closes idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// RefusedError is a response with another status code than 200.
type RefusedError struct {
	Call   string
	Code   int
	Header http.Header
	Body   []byte
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", r.Call, r.Code, http.StatusText(r.Code), bytes.TrimSpace(r.Body))
}

// New returns a request for a call, which may have a query.
func (c *Client) New(ctx context.Context, method, call string, body io.Reader) (*http.Request, error) {
	url := strings.TrimRight(c.Join.Hub, "/") + route.Agent(key.Location(c.Join.Location)).Path(call)
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	wire.InPieces(r)
	if c.Join.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Join.Token)
	}
	r.Header.Set(wire.Header, wire.ProtocolVersion)
	if c.Capabilities != "" {
		r.Header.Set(wire.CapabilitiesHeader, c.Capabilities)
	}
	return r, nil
}

// Do sends a request and returns the body of the response, which the caller must close. It returns a
// RefusedError if the status code is not 200.
func (c *Client) Do(ctx context.Context, method, call string, body io.Reader) (io.ReadCloser, error) {
	r, err := c.New(ctx, method, call, body)
	if err != nil {
		return nil, err
	}
	return c.send(r, call)
}

func (c *Client) send(r *http.Request, call string) (io.ReadCloser, error) {
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // an error leaves a shorter text
	return nil, &RefusedError{Call: call, Code: resp.StatusCode, Header: resp.Header, Body: text}
}

// Lines returns values in the format of a body.
func Lines(values ...any) []byte {
	var b bytes.Buffer
	encoder := wire.NewEncoder(&b)
	for _, v := range values {
		if err := encoder.Encode(v); err != nil { // to memory
			panic(err)
		}
	}
	return b.Bytes()
}

// post posts lines and decodes each line of the response until read reports that it was the last, or
// the response ends.
func post[T any](ctx context.Context, c *Client, call string, lines []any, read func(T) (last bool)) error {
	body, err := c.Do(ctx, http.MethodPost, call, bytes.NewReader(Lines(lines...)))
	if err != nil {
		return err
	}
	defer body.Close()
	for decoder := wire.NewDecoder(body); ; {
		var line T
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		if read(line) {
			return nil
		}
	}
}

// Exchange posts lines and returns the frames of the response, of which the last is a mark.
func (c *Client) Exchange(ctx context.Context, call string, lines ...any) (frames []wire.Frame, err error) {
	err = post(ctx, c, call, lines, func(f wire.Frame) bool {
		frames = append(frames, f)
		return f.Mark != nil
	})
	return frames, err
}

// Report sends reports.
func (c *Client) Report(ctx context.Context, lines ...wire.ReportLine) (answer wire.ReportsAnswer, err error) {
	all := make([]any, len(lines))
	for i, l := range lines {
		all[i] = l
	}
	err = post(ctx, c, route.Reports, all, func(a wire.ReportsAnswer) bool { answer = a; return true })
	return answer, err
}

// Reports fetches reports. It returns as many as the response has, at least one.
func (c *Client) Reports(ctx context.Context, keys ...string) (lines []wire.ReportLine, err error) {
	fetches := make([]any, len(keys))
	for i, k := range keys {
		fetches[i] = wire.Fetch{Key: k}
	}
	err = post(ctx, c, route.ReportsFetch, fetches, func(l wire.ReportLine) bool {
		lines = append(lines, l)
		return len(lines) == len(keys)
	})
	if errors.Is(err, io.EOF) && len(lines) > 0 {
		err = nil // the hub ends a large response early
	}
	return lines, err
}

// Tell sends the status of an agent.
func (c *Client) Tell(ctx context.Context, s wire.AgentStatus) (answer wire.StatusAnswer, err error) {
	err = post(ctx, c, route.AgentStatus, []any{s}, func(a wire.StatusAnswer) bool { answer = a; return true })
	return answer, err
}

// LogIdentity requests the log's revisions of markers.
func (c *Client) LogIdentity(ctx context.Context, markers ...string) (answer wire.LogIdentityResponse, err error) {
	err = post(ctx, c, route.LogIdentity, []any{wire.LogIdentityRequest{Markers: markers}}, func(a wire.LogIdentityResponse) bool { answer = a; return true })
	return answer, err
}

// Namespaces requests which Namespaces are desired at the location.
func (c *Client) Namespaces(ctx context.Context, names ...string) (answer wire.NamespacesResponse, err error) {
	err = post(ctx, c, route.Namespaces, []any{wire.NamespacesRequest{Names: names}}, func(a wire.NamespacesResponse) bool { answer = a; return true })
	return answer, err
}

// Open opens a session from a log position. It ends with the context.
func (c *Client) Open(ctx context.Context, after int64, marker string) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, err := c.Do(ctx, http.MethodGet, fmt.Sprintf("%s?after=%d&marker=%s", route.Desired, after, marker), http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Stream{frames: wire.NewDecoder(body), end: sync.OnceFunc(func() {
		cancel()
		_ = body.Close() // the caller no longer reads
	})}, nil
}

// Stream is an open session. One goroutine reads it; any may close it.
type Stream struct {
	frames *wire.Decoder
	end    func()
}

// Next waits for the next frame. It returns io.EOF once the hub has ended the session.
func (s *Stream) Next() (f wire.Frame, err error) { return f, s.frames.Decode(&f) }

// Close ends the session.
func (s *Stream) Close() { s.end() }
