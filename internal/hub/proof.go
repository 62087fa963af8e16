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
	answer := wire.LineageAnswer{Marker: h.lineage.at(now), Revision: now, Spans: map[string][]wire.Revisions{}}
	for _, marker := range ask.Markers {
		if spans := h.lineage.spans(marker, now); len(spans) > 0 {
			answer.Spans[marker] = spans
		}
	}
	writeJSON(w, answer)
}

// spans are the revisions of a marker's log that are revisions of this one, which
// has come to now: those at which the marker is the newest.
func (l *lineage) spans(marker string, now int64) []wire.Revisions {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, m := range l.all {
		if m.name != marker {
			continue
		}
		last := now
		if i+1 < len(l.all) {
			last = min(last, l.all[i+1].rev-1)
		}
		if m.rev <= last {
			return []wire.Revisions{{First: m.rev, Last: last}}
		}
	}
	return nil
}

// deliver says in a put, if there is one, at which place in the log it is delivered.
// hello is the marker that need not be named; empty: it has to be.
func (l *lineage) deliver(p *wire.Put, rev int64, hello string) {
	if p == nil {
		return
	}
	p.Revision = rev
	if marker := l.at(rev); marker != hello {
		p.Marker = marker
	}
}
