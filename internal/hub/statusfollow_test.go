package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// places are the places of a status, by object and location.
type places map[string]map[key.Location]queries.PlaceStatus

func placesIn(objects []queries.ObjectStatus) places {
	all := places{}
	for _, o := range objects {
		for _, p := range o.Places {
			all.ofObject(o.Object)[p.Location] = p
		}
	}
	return all
}

func (p places) ofObject(object string) map[key.Location]queries.PlaceStatus {
	if p[object] == nil {
		p[object] = map[key.Location]queries.PlaceStatus{}
	}
	return p[object]
}

// received contains the events of a streaming response so far. It is safe for concurrent use.
type receivedStatus struct {
	mu     sync.Mutex
	places places
	synced bool
	head   queries.SpaceStatus
	ended  bool
}

// read takes all events of an answer until that ends.
func (t *receivedStatus) read(body io.Reader) {
	lines := json.NewDecoder(body)
	for {
		var e queries.StatusEvent
		err := lines.Decode(&e)
		t.mu.Lock()
		switch {
		case err != nil:
			t.ended = true
		case e.Status != nil:
			t.head = *e.Status
		case e.Object != nil:
			if e.Whole {
				delete(t.places, e.Object.Object)
			}
			for _, p := range e.Object.Places {
				t.places.ofObject(e.Object.Object)[p.Location] = p
			}
			for _, l := range e.Gone {
				delete(t.places.ofObject(e.Object.Object), l)
			}
		}
		t.synced = t.synced || e.Synced
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// differs returns the difference between the received events and a status; "" if there is none.
func (t *receivedStatus) differs(status queries.SpaceStatus) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := maps.Clone(t.places)
	maps.DeleteFunc(rest, func(_ string, places map[key.Location]queries.PlaceStatus) bool { return len(places) == 0 })
	if now := placesIn(status.Objects); !maps.EqualFunc(rest, now, maps.Equal) {
		return fmt.Sprintf("received %v, which is now %v", rest, now)
	}
	if fmt.Sprint(t.head.Placements) != fmt.Sprint(status.Placements) || t.head.LeftCounts != status.LeftCounts {
		return fmt.Sprintf("received %+v, which is now %+v", t.head, status)
	}
	return ""
}

// TestStatusFollows shows that a status that is followed says at every moment what one that
// is asked for anew says, page by page or at once, whatever happens; and that it ends with
// the right to it.
func TestStatusFollows(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.grant("s", "viewer", `{"subjects":[{"kind":"User","name":"viewer"}],"roles":[{"name":"view"}]}`)
	agents := map[string]*testAgent{}
	for _, l := range []key.Location{"a", "b", "c"} {
		r.addLocation(l, map[string]string{"where": "x"})
		agents[string(l)] = r.join(l)
	}
	r.addPlacement("s", "p", "x", "app", nil)
	for i := range 4 {
		r.addConfigMap(fmt.Sprint("cm-", i), map[string]string{"what": "app"}, "1")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	viewer := r.as("viewer")
	viewer.Timeout = 0 // each wait has its own
	resp := viewer.open(ctx, "GET /ask/v1/spaces/s/status?watch=true", "")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	defer resp.Body.Close()
	received := &receivedStatus{places: places{}}
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { received.read(resp.Body) })

	random := seeds.Rand(t, 1)
	maps := r.space("s").Resource(configMapsGVR).Namespace("default")
	for range 12 {
		name := fmt.Sprint("cm-", random.IntN(4))
		path := "core/configmaps/default/" + name
		l := []string{"a", "b", "c"}[random.IntN(3)]
		switch random.IntN(6) {
		case 0:
			if _, err := maps.Get(ctx, name, metav1.GetOptions{}); err == nil {
				_ = maps.Delete(ctx, name, metav1.DeleteOptions{})
			} else {
				r.addConfigMap(name, map[string]string{"what": "app"}, "1")
			}
		case 1:
			r.patchLocation(l, fmt.Sprintf(`{"metadata":{"labels":{"where":%q}}}`, []string{"x", "y"}[random.IntN(2)]))
		default:
			if row, _ := r.Table.Get("o/s/" + path); row != nil {
				state := []wire.State{wire.Failed, wire.Waiting, wire.Held}[random.IntN(3)]
				agents[l].report(wire.ReportLine{Key: "s/" + path, Report: &wire.Report{UID: row.Meta.UID, State: state, Message: fmt.Sprint(random.IntN(9))}})
			}
		}
		r.eventually(func() string {
			status, _ := r.statusRows()
			if d := received.differs(status); d != "" {
				return d
			}
			for limit := 1; limit < 3; limit++ {
				if got, want := r.pages(limit), placesIn(status.Objects); fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Sprintf("in pages of %d it is %v, and not %v", limit, got, want)
				}
			}
			return ""
		})
	}
	r.revoke("s", "viewer")
	r.eventually(func() string {
		received.mu.Lock()
		defer received.mu.Unlock()
		if !received.ended {
			return "it goes on without the right to it"
		}
		return ""
	})
	if code, body := r.as("admin", "system:masters").send("GET /ask/v1/spaces/s/status?continue=x", ""); code != http.StatusBadRequest || !strings.Contains(body, "continue") {
		t.Errorf("an invalid page: %d %s", code, body)
	}
}

// pages are the places of the space's status, read in pages of a number of objects.
func (r *running) pages(limit int) places {
	r.t.Helper()
	all, from := []queries.ObjectStatus{}, ""
	for first := true; first || from != ""; first = false {
		query := []string{"limit", fmt.Sprint(limit)}
		if from != "" {
			query = append(query, "continue", from)
		}
		status, _ := r.statusRows(query...)
		if len(status.Objects) > limit {
			r.t.Fatalf("a page of %d has %d objects", limit, len(status.Objects))
		}
		all, from = append(all, status.Objects...), status.Continue
	}
	return placesIn(all)
}
