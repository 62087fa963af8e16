package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxStatusBytes limits the body of a status request.
const maxStatusBytes = 1 << 20

// serveAgentStatus receives the status of an agent.
func (a *Server) serveAgentStatus(w http.ResponseWriter, r *http.Request, id key.Session) {
	name := fmt.Sprintf("location %s %d", id.Location, id.Shard.Number())
	if err := a.reported.statuses.Begin(name); err != nil {
		respond.Error(w, r, err)
		return
	}
	a.reported.statuses.Count(name, 1)
	var text json.RawMessage
	statement := presence.Statement{}
	err := requestbody.Decode(r, requestbody.Limits{Bytes: maxStatusBytes}, &text)
	if err == nil {
		statement.Text, err = text, json.Unmarshal(text, &statement.Status)
	}
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "status"))
		return
	}
	if a.config.SignedBy != nil {
		statement.SignedBy = a.config.SignedBy(r.Context())
	}
	sendAPIs, err := a.sessions.tell(r.Context(), id, statement)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = respond.Unanswered()
	case err != nil:
		err = respond.Admitted(err)
	}
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.JSON(w, wire.StatusAnswer{SendAPIs: sendAPIs})
}
