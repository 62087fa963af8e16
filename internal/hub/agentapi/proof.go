package agentapi

import (
	"net/http"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxLogIdentityBytes limits the body of a log identity request.
const maxLogIdentityBytes = 64 << 10

// serveLogIdentity returns, for each requested marker, the revisions under it that belong to this
// hub's log.
func serveLogIdentity(w http.ResponseWriter, r *http.Request, t *table.Table, log *logidentity.Identity) {
	var query wire.LogIdentityRequest
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: maxLogIdentityBytes}, &query); err != nil {
		respond.Error(w, r, respond.BadBody(err, "lineage"))
		return
	}
	if n := len(query.Markers); n > wire.MaxMarkers {
		respond.Error(w, r, respond.BadRequest("log identity: %d markers, at most %d are allowed", n, wire.MaxMarkers))
		return
	}
	now := t.Rev()
	answer := wire.LogIdentityResponse{Spans: map[string][]wire.Revisions{}}
	answer.Marker, answer.Revision = log.Position(now)
	for _, marker := range query.Markers {
		if spans := log.Spans(marker, now); len(spans) > 0 {
			answer.Spans[marker] = spans
		}
	}
	respond.JSON(w, answer)
}
