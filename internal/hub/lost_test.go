package hub_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

// TestRestartDeclaresNobodyLost shows that a hub that starts gives locations time to
// reconnect, writes nothing about those that do, and then declares the others lost.
func TestRestartDeclaresNobodyLost(t *testing.T) {
	t.Parallel() // it waits much of the time
	var hours clock
	dir := t.TempDir()
	r := start(t, dir, hours.moved)
	r.addSpace("s")
	for _, name := range []string{"a", "b"} {
		r.addLocation(key.Location(name), map[string]string{"where": name})
		r.addPlacement("s", "at-"+name, name, name, nil)
		r.addConfigMap(name, map[string]string{"what": name}, "1")
	}
	agents := []*testAgent{r.join("a"), r.join("b")}
	for _, a := range agents {
		a.open(0, "").next()
		r.becomes(string(a.location), v1alpha1.ConditionCompatible, metav1.ConditionTrue, v1alpha1.ReasonProtocol)
		r.eventually(func() string { return r.staleness(string(a.location), false) })
	}
	r.idle()
	before := map[string]string{"a": r.location("a").ResourceVersion, "b": r.location("b").ResourceVersion}
	r.stop()

	r = start(t, dir, hours.moved)
	same := func(names ...string) func() string {
		return func() string {
			for _, name := range names {
				if now := r.location(name); now.ResourceVersion != before[name] {
					return fmt.Sprintf("%s was at revision %s, is at %s: %+v", name, before[name], now.ResourceVersion, now.Status)
				}
				if wrong := r.staleness(name, false); wrong != "" {
					return wrong
				}
			}
			return ""
		}
	}
	r.throughout(limit.Window, same("a", "b"))
	agents[0].r = r
	agents[0].open(0, "").next()
	hours.pass(lostAfter / 2)
	r.touch("b")
	before["b"] = r.location("b").ResourceVersion
	r.throughout(limit.Window, same("a", "b"))
	r.loses(&hours, "b")
	r.throughout(limit.Window, same("a"))
	r.eventually(func() string { return r.staleness("b", true) })
	agents[1].r = r
	agents[1].open(0, "").next()
	r.becomes("b", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	r.eventually(func() string { return r.staleness("b", false) })

	// A lost location is still lost for a restarted hub.
	r.stop()
	r = start(t, dir, hours.moved)
	r.loses(&hours, "a")
	r.stop()
	r = start(t, dir, hours.moved)
	r.eventually(func() string { return r.staleness("a", true) })
}

// staleness compares everything that shows whether a location is stale: the counts of the
// location and of its Placement, the row of its object, the conditions.
func (r *running) staleness(name string, want bool) string {
	r.t.Helper()
	l := r.location(name)
	p, err := r.space("s").Resource(placementsGVR).Get(r.t.Context(), "at-"+name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	placed, _, err := unstructured.NestedInt64(p.Object, "status", "stale")
	if err != nil {
		r.t.Fatal(err)
	}
	var status queries.SpaceStatus
	r.question(&status, route.Status, "object", "core/configmaps/default/"+name)
	row := status.Objects[0].Places[0].Stale
	connected := meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConnected)
	unknown := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced).Reason == "Disconnected"
	if l.Status.Stale == 1 != want || placed == 1 != want || row != want || connected == want || unknown != want {
		return fmt.Sprintf("%s, stale is to be %v: the location counts %d, its Placement %d, the row says %v, Connected is %v, Synced Disconnected %v",
			name, want, l.Status.Stale, placed, row, connected, unknown)
	}
	return ""
}

// relay passes connections on until it is silenced; then it discards what it receives and
// sends nothing, as a network that has lost a machine.
type relay struct {
	address string
	silent  atomic.Bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: listener.Addr().String()}
	var group sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	group.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			into, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			mu.Lock()
			open = append(open, from, into)
			mu.Unlock()
			group.Go(func() { r.pass(from, into) })
			group.Go(func() { r.pass(into, from) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return r
}

func (r *relay) pass(from io.Reader, to io.WriteCloser) {
	piece := make([]byte, 4096)
	for {
		n, err := from.Read(piece)
		if err != nil {
			if !r.silent.Load() {
				_ = to.Close()
			}
			return
		}
		if r.silent.Load() {
			continue
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// TestWalkingIsNotLost has an agent compare its content for longer than the hub waits
// for one whose session has ended: it does not read that meanwhile, so it may be cut.
func TestWalkingIsNotLost(t *testing.T) {
	t.Parallel() // it waits much of the time
	var hours clock
	r := start(t, t.TempDir(), hours.moved)
	r.addLocation("a", nil)
	a := r.join("a")
	s := a.open(0, "")
	s.next()
	r.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	s.close()
	r.session(nil)
	for range 6 {
		a.walk(holding{})
		hours.pass(lostAfter / 2)
		r.touch("a")
		if wrong := r.connected(); wrong != "" {
			t.Fatal(wrong)
		}
	}
	// Without a session it would stay lost.
	r.throughout(limit.Window, r.connected)
	r.loses(&hours, "a")
}

// TestVanishedAgent shows that the hub notices an agent that is gone without a word,
// though the network accepts whatever is sent to it.
func TestVanishedAgent(t *testing.T) {
	t.Parallel() // it waits much of the time
	var hours clock
	// The timeout is longer than a busy machine stands still: a session that ends before the silence is another case.
	r := start(t, t.TempDir(), hours.moved, func(c *hub.Config) { c.Heartbeat, c.PingTimeout = time.Second, 20*time.Second })
	r.addLocation("a", nil)
	way := newRelay(t, strings.TrimPrefix(r.URL, "https://"))
	a := r.join("a")
	a.HTTP.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, way.address)
	}
	a.open(0, "").next()
	r.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	way.silent.Store(true)
	silenced := time.Now()
	r.session(nil)
	t.Logf("noticed after %s", time.Since(silenced)) // the network would take it for a quarter of an hour
	r.loses(&hours, "a")
	if n := r.Sessions.Count(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
}
