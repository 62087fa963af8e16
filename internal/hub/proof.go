package hub

import (
	"encoding/json"
	"net/http"

	"orrery.dev/orrery/internal/wire"
)

// maxLineageBytes bounds the body of a lineage request.
const maxLineageBytes = 64 << 10

// serveLineage tells an agent which part of the logs that it asks about is a part of
// this one.
func (h *Hub) serveLineage(w http.ResponseWriter, r *http.Request) {
	var ask wire.LineageAsk
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLineageBytes)).Decode(&ask); err != nil {
		h.refuse(w, r, badRequest("lineage: %v", err))
		return
	}
	if n := len(ask.Markers); n > wire.MaxMarkers {
		h.refuse(w, r, badRequest("lineage: %d markers, at most %d may be asked about", n, wire.MaxMarkers))
		return
	}
	now := h.table.Rev()
	answer := wire.LineageAnswer{Spans: map[string][]wire.Revisions{}}
	answer.Marker, answer.Revision = h.lineage.at(now)
	for _, marker := range ask.Markers {
		if spans := h.lineage.spans(marker, now); len(spans) > 0 {
			answer.Spans[marker] = spans
		}
	}
	writeJSON(w, answer)
}

// deliver says in a put, if there is one, at which place in the log it is delivered.
// hello is the marker that need not be named; empty: it has to be.
func (l *lineage) deliver(p *wire.Put, rev int64, hello string) {
	if p == nil {
		return
	}
	marker, rev := l.at(rev)
	p.Revision = rev
	if marker != hello {
		p.Marker = marker
	}
}
