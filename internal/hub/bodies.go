package hub

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/key"
)

const (
	// smallBody is what every request may send without asking.
	smallBody = 256 << 10
	// largeBodies is how many requests may send more at once: what is made of a body
	// takes several times its size.
	largeBodies = 16
	// reportBodies is how many requests with reports of one location are worked on at
	// once; an agent has one, and perhaps one that it has given up.
	reportBodies = 2
	// reportRate and reportBurst bound the bytes per second that one location reports,
	// reportRequests and reportRequestBurst how many requests it does that with.
	reportRate, reportBurst            = 8 << 20, 64 << 20
	reportRequests, reportRequestBurst = 50, 500
	// statusRate and statusBurst bound how many statuses of its agent one location sends
	// per second, each of which may be written; an agent sends one a second, and one
	// more when a session begins.
	statusRate, statusBurst = 5, 100
)

// limited bounds the memory that the bodies of requests take: a large one needs a turn,
// which is held until the request ends, and is refused if there is none.
type limited struct {
	body  io.ReadCloser
	enter func() (leave func(), err error)
	read  int
	leave func()
}

// Read reads on, with a turn if the body is large.
func (l *limited) Read(p []byte) (int, error) {
	if l.read >= smallBody && l.leave == nil {
		leave, err := l.enter()
		if err != nil {
			return 0, err
		}
		l.leave = leave
	}
	if l.leave == nil {
		p = p[:min(len(p), smallBody-l.read)]
	}
	n, err := l.body.Read(p)
	l.read += n
	return n, err
}

// Close ends the body.
func (l *limited) Close() error { return l.body.Close() }

// limitBody has the body of a request take a turn when it is large; done must be called
// when nothing is left of it.
func (h *Hub) limitBody(r *http.Request, flow string) (done func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	body := &limited{body: r.Body, enter: func() (func(), error) { return h.bodies.try(flow) }}
	r.Body = body
	return func() {
		if body.leave != nil {
			body.leave()
		}
	}
}

// newReportTurns makes the turns of requests with reports.
func newReportTurns(limit int) *turns {
	t := newTurns(limit)
	t.config.Share = reportBodies
	return t
}

// reportLimits bound what one location reports.
type reportLimits struct {
	turns                     *turns
	bytes, requests, statuses *rates
}

func newReportLimits(limit int) reportLimits {
	return reportLimits{
		turns: newReportTurns(limit), bytes: newRates(reportRate, reportBurst), requests: newRates(reportRequests, reportRequestBurst),
		statuses: newRates(statusRate, statusBurst),
	}
}

// limitReports serves a request with reports within what one location may report.
func (h *Hub) limitReports(w http.ResponseWriter, r *http.Request, l key.Location) {
	name := "location " + string(l)
	for _, rates := range []*rates{h.reported.requests, h.reported.bytes} {
		if err := rates.begin(name); err != nil {
			h.refuse(w, r, err)
			return
		}
	}
	h.reported.requests.count(name, 1)
	leave, err := h.reported.turns.try(name)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer leave()
	counted := &countedBody{ReadCloser: r.Body}
	defer func() { h.reported.bytes.count(name, counted.read) }()
	r.Body = counted
	h.serveReports(w, r, l)
}

// countedBody counts what is read of a body.
type countedBody struct {
	io.ReadCloser
	read int
}

// Read reads on.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += n
	return n, err
}

// badBody is what is answered when a body could not be read: that it makes no sense, or
// that it was not its turn.
func badBody(err error, format string, args ...any) error {
	if apierrors.IsTooManyRequests(err) {
		return err
	}
	return badRequest("%s: %v", fmt.Sprintf(format, args...), err)
}
