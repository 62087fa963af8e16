package agentapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestWalkIsOfTheLog checks that a session can continue at the revision of a comparison, even if the
// newest revision only wrote a key with a lease, such as the start of a session. That key expires, so
// an agent that stored its revision would later take the log for another one.
func TestWalkIsOfTheLog(t *testing.T) {
	h := walkedServer(t, 1, 1) // its table is at revision 1
	h.config.LogIdentity.Observe(0, nil)
	_, want := h.config.LogIdentity.Position(h.config.Table.Snapshot().Rev)
	mine, err := wire.NewIndex(nil)
	if err != nil {
		t.Fatal(err)
	}
	for call, target := range map[string]walkOf{route.Walk: {agentRequest: walkedRequest("l0000")}, route.ReportsWalk: {agentRequest: walkedRequest("l0000"), reports: true}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(protocol.Lines(wire.Walk{}, mine.Span("", ""))))
		w := httptest.NewRecorder()
		h.comparisons.serve(w, r, target)
		var f wire.Frame
		if err := wire.NewDecoder(w.Body).Decode(&f); err != nil || f.Hello == nil {
			t.Fatalf("%s: %+v, %v", call, f, err)
		}
		if f.Hello.Revision != want || !h.config.LogIdentity.Continuous(f.Hello.Marker, f.Hello.Revision) {
			t.Errorf("%s is of revision %d with marker %q, want %d", call, f.Hello.Revision, f.Hello.Marker, want)
		}
	}
}

// TestRequestsEndWithTheirLocation checks that comparisons and fetches fail if their location was removed after they
// arrived, also if there is another location of its name. The agent would take the other location's content for its own.
func TestRequestsEndWithTheirLocation(t *testing.T) {
	h := walkedServer(t, 1, 1)
	removed := agentRequest{location: "l0000", uid: "uid-removed"}
	for _, reports := range []bool{false, true} {
		if _, _, err := h.comparisons.collect(t.Context(), walkOf{removed, reports}); !apierrors.IsNotFound(err) {
			t.Errorf("a comparison, of reports %t, ended with %v", reports, err)
		}
	}
	keys, _ := keysOf(h)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(protocol.Lines(keys[0])))
	w := httptest.NewRecorder()
	if h.objects.serve(w, r, removed); w.Code != http.StatusNotFound {
		t.Errorf("a fetch has the status %d: %s", w.Code, w.Body)
	}
}
