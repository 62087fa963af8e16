package agentapi

import (
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// reportBodies is how many report requests of one agent are worked on at once:
	// the agent's current one, and perhaps one that it has given up.
	reportBodies = 2
	// reportRate and reportBurst bound the bytes per second that one agent reports,
	// reportRequests and reportRequestBurst its report requests per second.
	reportRate, reportBurst            = 8 << 20, 64 << 20
	reportRequests, reportRequestBurst = 50, 500
	// statusRate and statusBurst bound the status requests per second of one agent,
	// each of which may cause a write. An agent sends at most one a second, and one more
	// when a session begins.
	statusRate, statusBurst = 5, 100
	// sessionRate and sessionBurst bound the sessions per second that one agent begins, and
	// how often it is noted that it was refused, each of which is a write for all hubs.
	sessionRate, sessionBurst = 1, 300
)

// reportLimits bound what one agent reports.
type reportLimits struct {
	turns                               *fairqueue.Queue
	bytes, requests, statuses, sessions *fairqueue.Rates
}

func newReportLimits(turns fairqueue.QueueConfig, now func() time.Time) reportLimits {
	turns.Share, turns.Yields, turns.Reserve = reportBodies, false, 0
	rates := func(perSecond, burst int) *fairqueue.Rates {
		return fairqueue.NewRates(perSecond, burst).WithClock(now)
	}
	return reportLimits{
		turns: fairqueue.NewQueue(turns), bytes: rates(reportRate, reportBurst), requests: rates(reportRequests, reportRequestBurst),
		statuses: rates(statusRate, statusBurst), sessions: rates(sessionRate, sessionBurst),
	}
}

// beginsSession counts a session of an agent, and fails with a TooManyRequests that says when to
// come again if it has begun more than it may.
func (a *Server) beginsSession(of key.Session) error {
	name := fmt.Sprintf("location %s %d", of.Location, of.Shard.Number())
	if err := a.reported.sessions.Begin(name); err != nil {
		wait, _ := apierrors.SuggestsClientDelay(err)
		return apierrors.NewTooManyRequests(fmt.Sprintf("the agent of %q begins session after session: more than one a second are too many", of.Location), wait)
	}
	a.reported.sessions.Count(name, 1)
	return nil
}

// refuses says of an agent that it was refused for its protocol version, unless that is said
// too often.
func (a *Server) refuses(of key.Session, protocol string) {
	if a.beginsSession(of) == nil {
		a.sessions.refuse(of, protocol)
	}
}

// limitReports serves a report request unless its agent reports too much.
func (a *Server) limitReports(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	name := fmt.Sprintf("location %s %d", l, shard.Number())
	for _, rates := range []*fairqueue.Rates{a.reported.requests, a.reported.bytes} {
		if err := rates.Begin(name); err != nil {
			respond.Error(w, r, err)
			return
		}
	}
	a.reported.requests.Count(name, 1)
	leave, err := a.reported.turns.Try(fairqueue.Flow{Name: name})
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	defer leave()
	counted := &countedBody{ReadCloser: r.Body}
	defer func() { a.reported.bytes.Count(name, counted.read) }()
	r.Body = counted
	a.serveReports(w, r, l, shard)
}

// countedBody counts what is read of a body.
type countedBody struct {
	io.ReadCloser
	read int
}

// Read implements io.Reader.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += n
	return n, err
}
