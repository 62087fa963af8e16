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

// drainTime is how long requests have to end that were begun with a credential which is
// to be replaced.
const drainTime = 10 * time.Second

// errRenewed ends what was begun with a credential that is replaced.
var errRenewed = errors.New("the agent's credential was renewed: connect again")

// line is how the hub is reached with one credential. Connections are not shared between
// lines: each shows its certificate when it begins.
type line struct {
	client      *http.Client
	connections *connections
	// token is sent with each request; bearer is one that is sent once the hub has said that
	// no certificate arrives. Either may be empty.
	token, bearer string
	// shows names the credential; empty: there is none, or it has no name.
	shows string
	// sessions is done when sessions are to end, and all when everything is to.
	sessions, all       context.Context //nolint:containedctx // the life of the line
	endSessions, endAll context.CancelCauseFunc
	// users are requests under way, until their answers are read.
	users sync.WaitGroup
}

func newLine(transport http.RoundTripper, c *connections) *line {
	l := &line{client: clientOver(transport), connections: c}
	l.sessions, l.endSessions = context.WithCancelCause(context.Background())
	l.all, l.endAll = context.WithCancelCause(context.Background())
	return l
}

// clientOver makes a client that goes nowhere else than it is told to: where a redirection
// leads is not what the hub has announced, and need not be encrypted.
func clientOver(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Shows says that the client shows credentials, and needs one.
func (h *Client) Shows() bool { return h.shows }

// newLine is a line that shows a credential; nil: none.
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

// close ends what goes on over the line, and its connections: sessions at once, the rest
// when it had time to end by itself.
func (l *line) close() {
	l.endSessions(errRenewed)
	idle := make(chan struct{})
	go func() { // ends at the latest when the connections do
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

// activeLine has one line at a time. A new one is used only once nothing goes on over the one
// before: to the hub the use of an older credential after that of a newer one is a theft.
type activeLine struct {
	mu  sync.Mutex
	now *line
	// changed is closed when there is another line. While one is being closed, there is none.
	changed chan struct{}
}

// get waits for the line, and uses it until done is called.
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

// shown names the credential of the line; empty: there is none.
func (s *activeLine) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return ""
	}
	return s.now.shows
}

// another is closed when the line has been replaced.
func (s *activeLine) another() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// replace closes the line and goes on with another.
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

// session is a context that ends when the line is replaced, once there is one.
func (h *Client) session(ctx context.Context) (context.Context, context.CancelFunc, error) {
	l, done, err := h.lines.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	done()
	ctx, cancel := during(ctx, l.sessions)
	return ctx, cancel, nil
}

// during is a context that ends with another, too.
func during(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

// answerBody is the body of an answer; who closes it has ended its request.
type answerBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
