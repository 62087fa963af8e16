package kubeclient

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// TestWatchEventTooLarge checks that a watch ends at an event above the size limit of a response, but not at several
// events that exceed the limit together.
func TestWatchEventTooLarge(t *testing.T) {
	const size = 1 << 20
	write := func(w io.Writer, begin string, times int, end string) {
		_, _ = io.WriteString(w, begin)
		for block := strings.Repeat("x", size); times > 0; times-- {
			if _, err := io.WriteString(w, block); err != nil { // the agent has closed the connection
				return
			}
		}
		_, _ = io.WriteString(w, end)
	}
	const event, end = `{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"7"},"data":"`, `"}}`
	a := recordedBy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("resourceVersion") == "1" {
			write(w, event, 2*maxAnswer/size, end)
			return
		}
		for range maxAnswer / size / 8 {
			write(w, event, 10, end)
		}
	})
	shown := 0
	show := func(*ownership.Answer, bool) error { shown++; return nil }
	if revision, err := a.Watch(t.Context(), Leases, "", "1", true, show); !errors.Is(err, errTooLarge) || revision != "" || shown > 0 {
		t.Errorf("an event that is too large: %d are shown, revision %q, %v", shown, revision, err)
	}
	if revision, err := a.Watch(t.Context(), Leases, "", "2", true, show); err != nil || revision != "7" || shown != maxAnswer/size/8 {
		t.Errorf("%d events are shown, revision %q, %v", shown, revision, err)
	}
}

// TestWatchOfARestoredCluster checks a watch from a revision that the restored etcd of an API server has not
// reached, which the API server accepts. The first bookmark shows that, and the objects are listed again.
func TestWatchOfARestoredCluster(t *testing.T) {
	a := recordedBy(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"95"}}}
{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"96"}}}`)
	})
	for _, c := range []struct {
		from, want string
		shown      int
	}{{"90", "96", 1}, {"95", "96", 1}, {"100", "", 0}, {"none", "96", 1}} {
		shown := 0
		revision, err := a.Watch(t.Context(), Leases, "", c.from, true, func(*ownership.Answer, bool) error { shown++; return nil })
		if err != nil || revision != c.want || shown != c.shown {
			t.Errorf("from %s: revision %q, want %q; %d shown, want %d; %v", c.from, revision, c.want, shown, c.shown, err)
		}
	}
}
