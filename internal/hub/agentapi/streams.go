package agentapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

// streams serve the sessions of agents: they start a session, and send the reason of its end. They are
// safe for concurrent use.
type streams struct {
	config      *Config
	locations   *locations
	sessions    *Sessions
	limits      *agentLimits
	reports     *reportStore
	inspections *inspections
}

// serve streams the desired objects of a location to its agent. It ends when the agent
// disconnects, a stream condition fails, a newer session replaces it, or the hub stops.
func (a *streams) serve(w http.ResponseWriter, r *http.Request, from agentRequest) {
	after, err := revisionParam(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	heartbeat, err := heartbeatFor(r, a.config.Heartbeat)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	if err := a.limits.beginSession(from.session()); err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.Serve(r.Context(), func() { a.serveSession(w, r, from, after, heartbeat) })
}

// serveSession serves a session that resumes after a revision.
func (a *streams) serveSession(w http.ResponseWriter, r *http.Request, from agentRequest, after int64, heartbeat time.Duration) {
	lacks := ""
	if _, settings, err := a.locations.settings(from.location); err == nil {
		lacks = from.can.lack(settings)
	}
	mine := a.sessions.start(r.Context(), from.session(), wire.Capable(r.Header, wire.Inspects), lacks, !from.can.upsyncs)
	defer a.sessions.end(mine)

	s := &session{
		config: a.config, locations: a.locations, reports: a.reports, pending: a.inspections,
		content: content{location: from.location, shard: from.shard, renderer: a.config.Renderer, can: from.can},
		out:     newSessionWriter(w, a.config.Watch.Sent), notify: mine.notify, inspections: mine.inspections, heartbeat: heartbeat, known: r.URL.Query().Get("endpoints"),
	}
	defer s.out.end()
	bye := wire.Bye{Reason: wire.ByeShutdown}
	err := s.run(mine.ctx, r.URL.Query().Get("marker"), after) //nolint:contextcheck // made from the request's, so that a newer session can end it
	replaced, cut := a.sessions.ended(mine)
	switch {
	case errors.Is(err, table.ErrExpired), errors.Is(err, errContentChanged):
		bye.Reason = wire.ByeExpired
	case errors.Is(err, errTokenReplaced):
		bye.Reason = wire.ByeRevoked
	case errors.Is(err, errLocationRemoved):
		bye.Reason = wire.ByeRemoved
	case replaced:
		bye.Reason = wire.ByeReplaced
	case cut:
		bye.Message = "the hub's log does not answer"
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		bye = wire.Bye{Reason: wire.ByeExpired, Message: "the credential has expired"}
	case r.Context().Err() != nil:
		a.config.Watch.Ended("")
		return
	}
	a.config.Watch.Ended(bye.Reason)
	// Sending fails if the agent has disconnected.
	_ = s.out.send(wire.Frame{Bye: &bye})
	a.config.Logger.Info("session ended", "location", from.location, "reason", bye.Reason, "error", err)
}

func revisionParam(r *http.Request) (int64, error) {
	s := r.URL.Query().Get("after")
	if s == "" {
		return 0, nil
	}
	rev, err := strconv.ParseInt(s, 10, 64)
	if err != nil || rev < 0 {
		return 0, respond.BadRequest("after %q: want a revision", s)
	}
	return rev, nil
}
