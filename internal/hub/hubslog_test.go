package hub_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// isCompacted reports whether the history of a revision is compacted.
func (r *running) forgotten(rev int64) bool {
	r.t.Helper()
	err := tries(func() error {
		_, err := r.Log.Client().Client.Get(r.t.Context(), etcd.Prefix+"o/", clientv3.WithRev(rev))
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		r.t.Fatal(err)
	}
	return err != nil
}

// TestHistoryOfSeveralHubs: the log keeps its history for the hub that needs the oldest revision, so that its
// watches continue, also at a hub that has just started. After that hub has ended, only the others count.
func TestHistoryOfSeveralHubs(t *testing.T) {
	t.Parallel()
	const short, long, writes = 20, 150, 400
	window := func(revisions int) func(*hub.Config) {
		return func(c *hub.Config) { c.WindowRevisions, c.CompactEvery = revisions, 100*time.Millisecond }
	}
	one := hubsOn(t, 1, window(short))[0]
	sharing := func(c *hub.Config) { c.EtcdServers, c.Lease = one.conf.EtcdServers, one.conf.Lease }
	other := start(t, sharedWith(t, one.dir), window(long), sharing)
	one.addSpace("s")
	one.elects(one) // so it forgets for all
	var revs []int64
	for i := range writes {
		revs = append(revs, one.addConfigMap(fmt.Sprint("c", i), nil, "1"))
	}
	kept := revs[len(revs)-long/2]
	one.eventually(func() string {
		if !one.forgotten(revs[writes/4]) {
			return "nothing is forgotten"
		}
		return ""
	})
	if one.forgotten(kept) {
		t.Fatalf("revision %d is forgotten, which is in the window of a hub", kept)
	}
	third := start(t, sharedWith(t, one.dir), window(long), sharing)
	for _, r := range []*running{other, third} {
		ctx := t.Context()
		w := r.as("op", masters).open(ctx, fmt.Sprintf("GET /spaces/s/api/v1/configmaps?watch=1&resourceVersion=%d", kept), "")
		t.Cleanup(func() { _ = w.Body.Close() })
		line, err := bufio.NewReader(w.Body).ReadString('\n')
		if w.StatusCode != http.StatusOK || err != nil || !strings.Contains(line, fmt.Sprintf(`"name":"c%d"`, len(revs)-long/2+1)) {
			t.Errorf("a watch from revision %d: %s, %v: %s", kept, w.Status, err, line)
		}
	}
	third.stop()
	other.stop()
	one.eventually(func() string {
		if !one.forgotten(kept) {
			return "history is kept for hubs that have ended"
		}
		return ""
	})
}

// TestLeftAtAllHubs: after a Location is deleted, no hub keeps state of its agents. This also holds for the
// hub that had the session, and for hubs that are not elected.
func TestLeftAtAllHubs(t *testing.T) {
	t.Parallel()
	hubs := hubsOn(t, 2)
	one, other := hubs[0], hubs[1]
	one.addSpace("s")
	one.elects(one)
	one.addLocation("a", nil)
	a := one.join("a")
	a.tell(wire.AgentStatus{Version: "v1", APIs: []wire.API{}, APIsDigest: "x"})
	a.connectTo(other).open(0, "").next()
	one.session(other)
	if err := one.space(key.Root).Resource(locationsGVR).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range hubs {
		r.eventually(func() string {
			open, seen := r.Sessions.Connected(key.WholeOf("a"))
			if open || seen.Opened || !seen.Ended.IsZero() {
				return fmt.Sprintf("it is remembered: %v, %+v", open, seen)
			}
			return ""
		})
	}
}

// TestDropsAtAnotherHub: if the elected hub removes reports of a location, the hub with the session of the
// agent notifies the agent.
func TestDropsAtAnotherHub(t *testing.T) {
	t.Parallel()
	hubs := hubsOn(t, 2)
	one, other := hubs[0], hubs[1]
	one.addSpace("s")
	one.elects(one)
	one.addLocation("a", map[string]string{"where": "x"})
	one.upsyncs("s", `{"resources":["configmaps"],"namespaces":["default"]}`)
	a := one.joinWithUpsync("a").connectTo(other)
	stream := a.open(0, "")
	requestsUpsync := func(s *wire.Settings) bool { return s != nil && len(s.Upsync) > 0 }
	stream.until(func(f wire.Frame) bool {
		return requestsUpsync(f.Settings) || f.Hello != nil && requestsUpsync(&f.Hello.Settings)
	})
	a.report(upsyncedLine("s/core/configmaps/default/x"))
	one.eventuallyReports("born a s/core/configmaps/default/x")
	one.upsyncs("s", `{"resources":["configmaps"],"namespaces":["elsewhere"]}`)
	one.eventuallyReports()
	frames := stream.until(func(f wire.Frame) bool { return f.Settings != nil && f.Settings.Dropped != 0 })
	row := one.row(key.Dropped("a")) // the other hub may have it first
	if dropped := frames[len(frames)-1].Settings.Dropped; dropped != row.ModRev {
		t.Errorf("the agent receives the drop of %d, want that of %+v", dropped, row)
	}
}
