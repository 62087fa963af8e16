package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxStatusBytes limits the body of a status request.
const maxStatusBytes = 1 << 20

// statusReceiver receives the statuses of agents, and publishes them to all hubs.
type statusReceiver struct {
	// limit limits the statuses of each agent.
	limit    *fairqueue.Rates
	sessions *Sessions
	// signedBy, if set, returns the name of the authority that signed the credential of a request.
	signedBy func(context.Context) string
}

// serve receives the status of an agent.
func (a *statusReceiver) serve(w http.ResponseWriter, r *http.Request, id key.Session) {
	name := flowOf(id)
	if err := a.limit.Begin(name); err != nil {
		respond.Error(w, r, err)
		return
	}
	a.limit.Count(name, 1)
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
	if a.signedBy != nil {
		statement.SignedBy = a.signedBy(r.Context())
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
