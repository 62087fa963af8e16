package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// etcdOf is a client of an etcd, as its operators have one.
func etcdOf(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing waits for it
	return c
}

// reports are how many reports there are of a location.
func (r *running) reports(l key.Location) (n int) {
	r.t.Helper()
	if err := r.WaitCommitted(limit.Context(r.t, "the table is current")); err != nil {
		r.t.Fatal(err)
	}
	r.Table.Snapshot().Ascend(key.LocationReports(l), func(*table.Row) bool { n++; return true })
	return n
}

// growing has etcd commit each write, so that the size that it reports is that of its file. By default
// it commits ten times a second.
func growing(c *embed.Config) { c.QuotaBackendBytes, c.BackendBatchLimit = smallQuota, 1 }

// grows has others make the file of an etcd, which is growing, larger than a size, of which then nothing
// is in use.
func grows(t *testing.T, operators *clientv3.Client, endpoint string, file int64) {
	t.Helper()
	const step = 128 << 10
	for i, size := 0, int64(0); size <= file; i++ {
		if _, err := operators.Put(t.Context(), fmt.Sprint("/beside/", i), filler(i, step)); err != nil {
			t.Fatal(err)
		}
		is, err := operators.Status(t.Context(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		size = is.DbSize
	}
	if _, err := operators.Delete(t.Context(), "/beside/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

// TestNearTheQuota: while the file of an external etcd, with its free space, is so near to its
// quota that nothing new is taken, hubs start, agents connect to them and are known to be there,
// deletions go through with what agents say of them; once it is defragmented all is as before.
func TestNearTheQuota(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Listen(t, growing)
	one := start(t, t.TempDir(), hurried, func(c *hub.Config) { c.EtcdServers, c.Lease = []string{endpoint}, hubsLease })
	one.addSpace("s")
	one.addLocation("a", map[string]string{"where": "a"})
	one.addPlacement("s", "p", "a", "a", nil)
	one.addConfigMap("x", map[string]string{"what": "a"}, "1")
	held := object("v1", "ConfigMap", "default", "held", map[string]string{"what": "a"}, nil)
	held.SetFinalizers([]string{"example.org/held"})
	one.create("s", configMapsGVR, held)
	a := one.join("a")
	const x = "s/core/configmaps/default/x"
	a.report(wire.ReportLine{Key: x, Report: &wire.Report{State: wire.Applied}})

	operators := etcdOf(t, endpoint)
	const file = smallQuota - 3<<20
	grows(t, operators, endpoint, file)
	one.eventually(func() string {
		if u := one.Log.Capacity().Usage(); u.File <= file || u.Alarm {
			return fmt.Sprintf("the log is %+v", u)
		}
		return ""
	})
	configMaps := one.space("s").Resource(configMapsGVR).Namespace("default")
	err := tries(func() error { return one.update(t.Context(), "x", "2") })
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Reason != v1alpha1.ReasonLogFull {
		t.Fatalf("a write near the quota: %v", err)
	}

	other := one.secondHub()
	stream := a.connectTo(other).open(0, "")
	stream.next()
	one.session(other)
	for _, name := range []string{"x", "held"} {
		if err := lasts(func() error { return configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}) }); err != nil {
			t.Fatalf("a deletion near the quota: %v", err)
		}
	}
	stream.until(func(f wire.Frame) bool { return f.Del != nil })
	a.connectTo(other).report(wire.ReportLine{Key: x, Removed: true})
	if n := one.reports("a"); n != 0 {
		t.Errorf("%d reports of removed objects remain", n)
	}
	stream.close()
	other.session(nil)
	a.open(0, "").next()
	other.session(one)

	one.eventually(func() string {
		if _, err := operators.Defragment(t.Context(), endpoint); err != nil {
			return err.Error()
		}
		if answers := one.answerOf("/readyz") + other.answerOf("/readyz"); answers != "okok" {
			return "readyz says " + answers
		}
		return ""
	})
	if err := one.large(t.Context(), http.MethodPost, "more", filler(0, 1<<20)); err != nil {
		t.Errorf("a write once there is room: %v", err)
	}
	other.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
}

// TestWalkAtAnotherHub: an agent without a session counts as connected during a long comparison, although it
// sends its requests to a hub that is not elected. It is lost once it sends no more requests.
func TestWalkAtAnotherHub(t *testing.T) {
	t.Parallel()
	var hours clock
	hubs := hubsOn(t, 2, hours.moved)
	one, other := hubs[0], hubs[1]
	one.addLocation("a", nil)
	one.elects(one)
	a := one.join("a").connectTo(other)
	session := a.open(0, "")
	session.next()
	one.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	one.idle()
	before := one.location("a")
	session.close()
	one.session(nil)
	writes := 0
	row := func() int64 {
		if row, _ := one.Table.Get(key.WholeOf("a").StatusKey()); row != nil {
			return row.ModRev
		}
		return 0
	}
	last := row()
	a.walk(holding{})
	for range 6 {
		hours.pass(lostAfter * 2 / 5) // other hubs are notified three times in that duration
		seen := last
		for range 3 {
			a.walk(holding{})
			if now := row(); now != last {
				last, writes = now, writes+1
			}
		}
		one.eventually(func() string {
			if row() == seen {
				return "that it walks is not written"
			}
			return ""
		})
		if wrong := one.connected(); wrong != "" {
			t.Fatal(wrong)
		}
	}
	one.idle()
	if wrong := one.connected(); wrong != "" {
		t.Error(wrong)
	}
	if writes == 0 || writes > 10 {
		t.Errorf("that it walks was written %d times", writes)
	}
	if now := one.location("a"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Location was written: %+v", now.Status)
	}
	one.loses(&hours, "a")
}

// TestHubThatStands: a hub that runs and does not advance does not delay the compaction of history because
// of its size.
func TestHubThatStands(t *testing.T) {
	t.Parallel()
	const quota = 2 * smallQuota // of which history may take an eighth
	endpoint := etcdtest.Listen(t, func(c *embed.Config) { c.QuotaBackendBytes = quota })
	// The hub waits as long as its lease is. It is to keep the lease also if the process stands still for a while.
	one := start(t, t.TempDir(), func(c *hub.Config) { c.EtcdServers, c.Lease = []string{endpoint}, 30*time.Second })
	one.addSpace("s")
	rev := one.addConfigMap("x", nil, "1")
	stalled := []etcd.Op{{Key: key.Hub("stands"), Value: fmt.Appendf(nil, `{"url":"https://stands","needs":%d,"seen":%d}`, rev, rev)}}
	if _, err := one.Log.Write(t.Context(), stalled); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := one.large(t.Context(), http.MethodPut, "x", filler(i, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	one.eventually(func() string {
		if !one.forgotten(rev + 1) {
			return "history is kept for a hub that stands"
		}
		return ""
	})
}
