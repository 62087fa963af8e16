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

// maxStatusBytes bounds the body of a status request.
const maxStatusBytes = 1 << 20

// serveAgentStatus takes what an agent says of itself.
func (a *Server) serveAgentStatus(w http.ResponseWriter, r *http.Request, of key.Session) {
	name := fmt.Sprintf("location %s %d", of.Location, of.Shard.Number())
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
	sendAPIs, err := a.sessions.tell(r.Context(), of, statement)
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
