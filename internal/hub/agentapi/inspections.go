package agentapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// defaultInspectTimeout is the default of Config.InspectTimeout.
const defaultInspectTimeout = 30 * time.Second

// inspector sends inspect requests to agents over their sessions, and receives the responses. It is
// safe for concurrent use.
type inspector struct {
	locations *locations
	sessions  *Sessions
	pending   *inspections
	// timeout is how long an agent may take to respond.
	timeout time.Duration
}

// inspect implements Server.Inspect.
func (a *inspector) inspect(ctx context.Context, l key.Location, o key.Object, all bool) (wire.InspectResponse, error) {
	var none wire.InspectResponse
	leave, err := a.pending.queue.Enter(ctx, fairqueue.Flow{Name: "location " + string(l)})
	if err != nil {
		return none, err
	}
	defer leave()
	target := a.locations.sessionFor(l, o.Space)
	open, queue := a.sessions.inspector(target)
	switch {
	case open == nil:
		return none, a.notConnected(target)
	case queue == nil:
		return none, inspectError(http.StatusNotImplemented, v1alpha1.ReasonAgentTooOld, fmt.Sprintf("the agent of location %q is too old for inspect requests: update it", l))
	}
	id, answered, forget := a.pending.expect(l)
	defer forget()
	late := time.NewTimer(a.timeout)
	defer late.Stop()
	request := wire.InspectRequest{ID: id, Key: o.Path(), All: all}
	for {
		select {
		case queue <- request:
			queue = nil
		case body := <-answered:
			return readInspected(l, o, body)
		case <-open.Done():
			return none, a.notConnected(target)
		case <-late.C:
			return none, inspectError(http.StatusGatewayTimeout, v1alpha1.ReasonNoAnswer,
				fmt.Sprintf("the agent of location %q has not answered within %s; it may be comparing all that it has, or its cluster may be slow", l, a.timeout))
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// notConnected returns the error for a location whose agent has no session here.
func (a *inspector) notConnected(id key.Session) error {
	l := id.Location
	message := fmt.Sprintf("the agent of location %q is not connected to this hub", l)
	state := a.locations.table.Snapshot()
	if other, ok := presence.SessionsOf(state, l)[id.Shard]; ok {
		message += "; it is connected to another hub"
		if h := presence.Hubs(state)[other.Hub]; h.URL != "" {
			message += ", at " + h.URL
		}
	} else if _, seen := a.sessions.Connected(id); !seen.Ended.IsZero() {
		message += a.since(seen.Ended)
	} else if c := a.locations.connected(l); c != nil && !c.LastTransitionTime.IsZero() {
		message += a.since(c.LastTransitionTime.Time)
	}
	return inspectError(http.StatusServiceUnavailable, v1alpha1.ReasonNotConnected, message)
}

func (a *inspector) since(moment time.Time) string {
	return fmt.Sprintf(" since %s (for %s)", moment.UTC().Format(time.RFC3339), a.sessions.now().Sub(moment).Round(time.Second))
}

// serveResponse receives the response to an inspect request. It does not read other responses.
func (a *inspector) serveResponse(w http.ResponseWriter, r *http.Request, l key.Location) {
	pending := a.pending.claim(l, r.URL.Query().Get("id"))
	if pending == nil {
		respond.Error(w, r, respond.NotFound(r.URL.Path))
		return
	}
	body, err := requestbody.Read(r, requestbody.Limits{Bytes: wire.MaxInspectResponse, Depth: maxInspectedDepth})
	if err != nil {
		body = nil // an invalid response
	}
	pending.answered <- body
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "read what is at the location"))
		return
	}
	respond.JSON(w, struct{}{})
}
