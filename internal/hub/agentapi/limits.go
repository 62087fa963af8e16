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
	// reportBodies is the number of concurrent report requests of one agent: the current one, and
	// possibly one that timed out at the agent.
	reportBodies = 2
	// reportRate and reportBurst limit the reported bytes per second of one agent, and
	// reportRequests and reportRequestBurst its report requests per second.
	reportRate, reportBurst            = 8 << 20, 64 << 20
	reportRequests, reportRequestBurst = 50, 500
	// statusRate and statusBurst limit the status requests per second of one agent, each of which
	// may cause a write. An agent sends at most one per second, and one at the start of a session.
	statusRate, statusBurst = 5, 100
	// sessionRate and sessionBurst limit the sessions per second that one agent starts, and the
	// records of its refusals. Each is a write that all hubs read.
	sessionRate, sessionBurst = 1, 300
)

// reportLimits limit the reports of each agent.
type reportLimits struct {
	queue                               *fairqueue.Queue
	bytes, requests, statuses, sessions *fairqueue.Rates
}

func newReportLimits(queue fairqueue.QueueConfig, now func() time.Time) reportLimits {
	queue.Share, queue.Yields, queue.Reserve = reportBodies, false, 0
	rates := func(perSecond, burst int) *fairqueue.Rates {
		return fairqueue.NewRates(perSecond, burst).WithClock(now)
	}
	return reportLimits{
		queue: fairqueue.NewQueue(queue), bytes: rates(reportRate, reportBurst), requests: rates(reportRequests, reportRequestBurst),
		statuses: rates(statusRate, statusBurst), sessions: rates(sessionRate, sessionBurst),
	}
}

// beginsSession counts a session of an agent. If the agent has started too many, it fails with
// TooManyRequests and the time after which to retry.
func (a *Server) beginsSession(id key.Session) error {
	name := fmt.Sprintf("location %s %d", id.Location, id.Shard.Number())
	if err := a.reported.sessions.Begin(name); err != nil {
		wait, _ := apierrors.SuggestsClientDelay(err)
		return apierrors.NewTooManyRequests(fmt.Sprintf("the agent of %q begins session after session: more than one a second are too many", id.Location), wait)
	}
	a.reported.sessions.Count(name, 1)
	return nil
}

// refuses records that an agent was refused for its protocol version, within the limits of sessions.
func (a *Server) refuses(id key.Session, protocol string) {
	if a.beginsSession(id) == nil {
		a.sessions.refuse(id, protocol)
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
	leave, err := a.reported.queue.Try(fairqueue.Flow{Name: name})
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

// countedBody counts the bytes that are read from a body.
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
