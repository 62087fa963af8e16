package agentapi

import (
	"net/http"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxLineageBytes bounds the body of a lineage request.
const maxLineageBytes = 64 << 10

// serveLineage tells an agent which revisions under the markers that it asks about are
// of this log.
func (a *Server) serveLineage(w http.ResponseWriter, r *http.Request) {
	var ask wire.LineageAsk
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: maxLineageBytes}, &ask); err != nil {
		respond.Error(w, r, respond.BadBody(err, "lineage"))
		return
	}
	if n := len(ask.Markers); n > wire.MaxMarkers {
		respond.Error(w, r, respond.BadRequest("lineage: %d markers, at most %d may be asked about", n, wire.MaxMarkers))
		return
	}
	now := a.config.Table.Rev()
	answer := wire.LineageAnswer{Spans: map[string][]wire.Revisions{}}
	answer.Marker, answer.Revision = a.config.Lineage.At(now)
	for _, marker := range ask.Markers {
		if spans := a.config.Lineage.Spans(marker, now); len(spans) > 0 {
			answer.Spans[marker] = spans
		}
	}
	respond.JSON(w, answer)
}
