package agentapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestWalkIsOfTheLog: from where a walk ends, a session goes on, also if the newest revision
// is one that proves nothing, since what it wrote goes with a lease: that a session began or
// ended is such a one. An agent that remembered it would take the log for another.
func TestWalkIsOfTheLog(t *testing.T) {
	h := walkedServer(t, 1, 1) // its table is at revision 1
	h.config.Lineage.Observe(0, nil)
	_, want := h.config.Lineage.At(h.config.Table.Snapshot().Rev)
	mine, err := wire.NewIndex(nil)
	if err != nil {
		t.Fatal(err)
	}
	for call, of := range map[string]walkOf{route.Walk: {walkOwner: walkOwner{location: "l0000"}}, route.ReportsWalk: {walkOwner: walkOwner{location: "l0000", reports: true}}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(protocol.Lines(wire.Walk{}, mine.Span("", ""))))
		w := httptest.NewRecorder()
		h.serveWalk(w, r, of)
		var f wire.Frame
		if err := wire.NewDecoder(w.Body).Decode(&f); err != nil || f.Hello == nil {
			t.Fatalf("%s: %+v, %v", call, f, err)
		}
		if f.Hello.Revision != want || !h.config.Lineage.Continuous(f.Hello.Marker, f.Hello.Revision) {
			t.Errorf("%s is of revision %d with marker %q, want %d", call, f.Hello.Revision, f.Hello.Marker, want)
		}
	}
}
