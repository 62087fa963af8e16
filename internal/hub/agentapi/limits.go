package agentapi

import (
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// agentLimits limit the requests of each agent that cause writes. They are safe for concurrent use.
type agentLimits struct {
	// queue limits the concurrent report requests.
	queue                               *fairqueue.Queue
	bytes, requests, statuses, sessions *fairqueue.Rates
}

func newAgentLimits(queue fairqueue.QueueConfig, now func() time.Time) *agentLimits {
	queue.Share, queue.Yields, queue.Reserve = reportBodies, false, 0
	rates := func(perSecond, burst int) *fairqueue.Rates {
		return fairqueue.NewRates(perSecond, burst).WithClock(now)
	}
	return &agentLimits{
		queue: fairqueue.NewQueue(queue), bytes: rates(reportRate, reportBurst), requests: rates(reportRequests, reportRequestBurst),
		statuses: rates(statusRate, statusBurst), sessions: rates(sessionRate, sessionBurst),
	}
}

// refusals returns the number of requests that a rate has refused.
func (a *agentLimits) refusals() int {
	return a.bytes.Refusals() + a.requests.Refusals() + a.statuses.Refusals() + a.sessions.Refusals()
}

// flowOf returns the name of an agent in limits.
func flowOf(id key.Session) string {
	return fmt.Sprintf("location %s %d", id.Location, id.Shard.Number())
}

// beginSession counts a session of an agent. If the agent has started too many, it fails with
// TooManyRequests and the time after which to retry.
func (a *agentLimits) beginSession(id key.Session) error {
	name := flowOf(id)
	if err := a.sessions.Begin(name); err != nil {
		wait, _ := apierrors.SuggestsClientDelay(err)
		return apierrors.NewTooManyRequests(fmt.Sprintf("the agent of %q begins session after session: more than one a second are too many", id.Location), wait)
	}
	a.sessions.Count(name, 1)
	return nil
}

// countBody counts the bytes that a handler reads from the body of a request.
func countBody(r *http.Request) *countedBody {
	counted := &countedBody{ReadCloser: r.Body}
	r.Body = counted
	return counted
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
