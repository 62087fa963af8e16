package hubclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/credential"
	"orrery.dev/orrery/internal/protocol/key"
)

// drainTime is the time for which requests may continue after their credential was replaced.
const drainTime = 10 * time.Second

// errRenewed ends requests whose credential was replaced.
var errRenewed = errors.New("the agent's credential was renewed: connect again")

// line is the HTTP client with one credential. Connections are not shared between lines, since
// the certificate is sent in the TLS handshake.
type line struct {
	client      *http.Client
	connections *connections
	// token is sent with each request; bearer replaces it once client certificates turn out
	// not to reach the hub. Either may be empty.
	token, bearer string
	// shows is the fingerprint of the credential; empty if there is none.
	shows string
	// sessions ends when sessions must end, and all when all requests must end.
	sessions, all       context.Context //nolint:containedctx // the life of the line
	endSessions, endAll context.CancelCauseFunc
	// users counts the requests until their responses are read.
	users sync.WaitGroup
}

func newLine(transport http.RoundTripper, c *connections) *line {
	l := &line{client: clientOver(transport), connections: c}
	l.sessions, l.endSessions = context.WithCancelCause(context.Background())
	l.all, l.endAll = context.WithCancelCause(context.Background())
	return l
}

// clientOver returns an HTTP client that follows no redirections: their targets are not
// announced by the hub, and need not be encrypted.
func clientOver(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Shows reports whether the client authenticates with a credential of its own.
func (h *Client) Shows() bool { return h.shows }

// newLine returns a line with a credential; nil for none.
func (h *Client) newLine(id *credential.Identity) (*line, error) {
	conns := &connections{open: map[*connection]struct{}{}}
	over := &transport{connections: conns, proxy: h.proxy}
	var bearer, shows string
	if id != nil {
		shows = id.Fingerprint()
		var err error
		if bearer, err = id.Bearer(key.Location(h.join.Location)); err != nil {
			return nil, err
		}
		over.certificates = []tls.Certificate{id.TLS()}
	}
	l := newLine(over, conns)
	l.bearer, l.shows = bearer, shows
	return l, nil
}

// close ends the line: sessions at once, other requests after drainTime at the latest.
func (l *line) close() {
	l.endSessions(errRenewed)
	idle := make(chan struct{})
	go func() { // ends at the latest when all connections are closed
		defer close(idle)
		l.users.Wait()
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	l.endAll(errRenewed)
	l.client.CloseIdleConnections()
	l.connections.drop()
	<-idle
}

// activeLine holds the current line. A new line is used only after all requests of the previous
// one have ended: the hub treats the use of an older credential after a newer one as theft.
type activeLine struct {
	mu  sync.Mutex
	now *line // nil while the previous line is being closed
	// changed is closed when there is another line.
	changed chan struct{}
}

// get waits for the line. The caller must call done after its use.
func (s *activeLine) get(ctx context.Context) (l *line, done func(), err error) {
	for {
		s.mu.Lock()
		l, changed := s.now, s.changed
		if l != nil {
			l.users.Add(1)
			s.mu.Unlock()
			return l, sync.OnceFunc(l.users.Done), nil
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("wait for a credential: %w", context.Cause(ctx))
		}
	}
}

// shown returns the fingerprint of the line's credential; empty if there is none.
func (s *activeLine) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return ""
	}
	return s.now.shows
}

// another returns a channel that is closed when the line has been replaced.
func (s *activeLine) another() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// replace closes the line and sets another one.
func (s *activeLine) replace(next *line) {
	s.mu.Lock()
	old := s.now
	s.now = nil
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = next
	close(s.changed)
	s.changed = make(chan struct{})
}

// drop closes all connections of the line.
func (s *activeLine) drop() {
	s.mu.Lock()
	l := s.now
	s.mu.Unlock()
	if l != nil {
		l.connections.drop()
	}
}

// session waits for a line and returns a context that ends when the line is replaced.
func (h *Client) session(ctx context.Context) (context.Context, context.CancelFunc, error) {
	l, done, err := h.lines.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	done()
	ctx, cancel := during(ctx, l.sessions)
	return ctx, cancel, nil
}

// during returns a context that ends with ctx or with other.
func during(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

// answerBody is the body of a response; Close also ends the request.
type answerBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
