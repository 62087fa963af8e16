package hub_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// hubsLease is the lease of hubs that share a log. No test waits for its end: a hub that ends
// revokes it.
const hubsLease = limit.Never

// hubsOn starts hubs that share an etcd, an authority and the keys, one after the other.
func hubsOn(t *testing.T, n int, configure ...func(*hub.Config)) []*running {
	t.Helper()
	servers := []string{etcdtest.Listen(t, nil)}
	configure = append(configure, func(c *hub.Config) { c.EtcdServers, c.Lease = servers, hubsLease })
	all := []*running{start(t, t.TempDir(), configure...)}
	for range n - 1 {
		all = append(all, start(t, sharedWith(t, all[0].dir), configure...))
	}
	return all
}

// sharedWith is the data directory of a hub that shares the authority and keys of another.
func sharedWith(t testing.TB, dir string) string {
	t.Helper()
	shared := t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key", "encryption.yaml"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(shared, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return shared
}

// secondHub starts one more hub on the log.
func (r *running) secondHub() *running {
	r.t.Helper()
	return start(r.t, sharedWith(r.t, r.dir), func(c *hub.Config) {
		c.EtcdServers, c.Lease, c.Heartbeat, c.Disconnected, c.Now = r.conf.EtcdServers, r.conf.Lease, r.conf.Heartbeat, r.conf.Disconnected, r.conf.Now
	})
}

// connectTo returns the agent as a client of another hub.
func (a *testAgent) connectTo(r *running) *testAgent {
	return &testAgent{Client: a.Client, r: r, location: a.location}
}

// id returns the ID of the hub among the running hubs; empty if the hub has not published itself.
func (r *running) id() string {
	for id, h := range presence.Hubs(r.Table.Snapshot()) {
		if h.URL == r.URL {
			return id
		}
	}
	return ""
}

// writers returns the elected hubs by task.
func (r *running) writers() map[string]string {
	all := map[string]string{}
	r.Table.Snapshot().Ascend(key.Elections.Prefix(), func(row *table.Row) bool {
		all[strings.TrimPrefix(row.Key, key.Elections.Prefix())] = string(row.Value)
		return true
	})
	return all
}

// electedTasks is the number of elected tasks.
const electedTasks = 17

// elects waits until a hub is elected for all tasks.
func (r *running) elects(elected *running) {
	r.t.Helper()
	r.eventually(func() string {
		all := r.writers()
		for task, id := range all {
			if id != elected.id() {
				return task + " is another's"
			}
		}
		if len(all) != electedTasks {
			return fmt.Sprintf("%d tasks have an elected hub: %v", len(all), all)
		}
		return ""
	})
}

// session waits until the session of the location a is at a hub; nil: at none.
func (r *running) session(holder *running) {
	r.t.Helper()
	r.eventually(func() string {
		s, open := presence.SessionsOf(r.Table.Snapshot(), "a")[key.Shard{}]
		if open != (holder != nil) || open && s.Hub != holder.id() {
			return fmt.Sprintf("the session: %v %+v", open, s)
		}
		return ""
	})
}

// TestSessionsAtSeveralHubs: wherever an agent is connected, every hub says so, and what the
// testAgent says of itself; its newest session is the one that stays; a hub that ends takes its
// sessions with it, and the location is lost only when the time for that has passed.
func TestSessionsAtSeveralHubs(t *testing.T) {
	t.Parallel()
	var hours clock
	hubs := hubsOn(t, 2, hours.moved)
	one, other := hubs[0], hubs[1]
	one.addLocation("a", nil)
	a := one.join("a")
	first := a.connectTo(other).open(0, "")
	a.connectTo(other).tell(wire.AgentStatus{Version: "v7"})
	a.tell(wire.AgentStatus{Version: "v8"}) // a balancer may pass on each request to another
	for _, r := range hubs {
		r.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
		r.eventually(func() string {
			if st := r.location("a").Status.Agent; st == nil || st.Version != "v8" {
				return fmt.Sprintf("the agent is %+v", st)
			}
			return ""
		})
	}
	second := a.open(0, "")
	for f, ok := first.next(); ; f, ok = first.next() {
		if !ok {
			t.Fatal("the first session ended without a word")
		}
		if f.Bye != nil {
			if f.Bye.Reason != wire.ByeReplaced {
				t.Errorf("the first session ended with %+v", f.Bye)
			}
			break
		}
	}
	first.close()
	other.session(one)
	second.close()
	other.session(nil)
	a.connectTo(other).open(0, "").next()
	one.session(other)
	one.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	one.idle()
	before := one.location("a")
	other.stop()
	one.session(nil)
	one.idle()
	if now := one.location("a"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the end of the hub is written: %+v", now.Status)
	}
	hours.pass(lostAfter / 2)
	one.touch("a")
	one.throughout(limit.Window, one.connected)
	one.loses(&hours, "a")
	a.open(0, "").next()
	one.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
}

// TestOneHubWrites: of several hubs one writes each thing, also where they would not write the
// same; when it ends another goes on at once.
func TestOneHubWrites(t *testing.T) {
	t.Parallel()
	hubs := hubsOn(t, 2)
	one, other := hubs[0], hubs[1]
	one.addSpace("s")
	one.elects(one)
	// Hubs at different URLs would say different things of a Space.
	published := func(r *running) (url, version string) {
		u, err := r.space(key.Root).Resource(spacesGVR).Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Trim(text(dig(u.Object, "status", "url")), `"`), u.GetResourceVersion()
	}
	one.eventually(func() string {
		if url, _ := published(other); !strings.HasPrefix(url, one.URL) {
			return "the space is at " + url
		}
		return ""
	})
	_, before := published(other)
	third := one.secondHub()
	other.addConfigMap("x", nil, "1")
	if _, now := published(third); now != before {
		t.Errorf("the Space is written by turns: %s, then %s", before, now)
	}
	began := time.Now()
	one.stop()
	other.eventually(func() string {
		for task, id := range other.writers() {
			if id != other.id() && id != third.id() {
				return task + " is still that of the hub that has ended"
			}
		}
		if n := len(other.writers()); n != electedTasks {
			return fmt.Sprintf("%d tasks have an elected hub", n)
		}
		return ""
	})
	t.Logf("others were elected after %s", time.Since(began))
	if err := other.space(key.Root).Resource(spacesGVR).Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	third.eventually(func() string {
		if row, _ := third.Table.Get(key.Space("s").Key()); row != nil {
			return "the space is still there"
		}
		return ""
	})
}

// TestHubsStartUnderWrites: revisions that agents received from one hub are proven at all hubs, whatever is
// written while other hubs start.
func TestHubsStartUnderWrites(t *testing.T) {
	t.Parallel()
	one := hubsOn(t, 1)[0]
	one.addSpace("s")
	one.addLocation("a", map[string]string{"where": "a"})
	one.addPlacement("s", "p", "a", "a", nil)
	one.addConfigMap("x", map[string]string{"what": "a"}, "1")
	a := one.join("a")
	session := a.open(0, "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Appendf(nil, `{"data":{"k":"%d"}}`, i)
			if _, err := one.space("s").Resource(configMapsGVR).Namespace("default").Patch(ctx, "x", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	type position struct {
		marker   string
		revision int64
	}
	const enough = 20
	positions := make(chan position, 100_000)
	heardEnough := make(chan struct{})
	noted := sync.OnceFunc(func() { close(heardEnough) })
	go func() {
		defer noted()
		defer close(positions)
		marker, n := "", 0
		for {
			f, err := session.Next()
			if err != nil || f.Bye != nil {
				return
			}
			if f.Hello != nil {
				marker = f.Hello.Marker
			}
			if m := f.Mark; m != nil {
				if m.Marker != "" {
					marker = m.Marker
				}
				positions <- position{marker, m.Revision}
				if n++; n == enough {
					noted()
				}
			}
		}
	}()
	var others []*running
	for range 4 {
		others = append(others, one.secondHub())
	}
	select {
	case <-heardEnough:
	case <-time.After(limit.Wait):
	}
	stop()
	work.Wait()
	last := others[len(others)-1]
	session.close()
	n := 0
	for h := range positions {
		if n++; n%7 != 0 {
			continue
		}
		for _, r := range []*running{one, last} {
			answer, err := a.connectTo(r).now().LogIdentity(t.Context(), h.marker)
			if err != nil {
				t.Fatal(err)
			}
			proven := false
			for _, s := range answer.Spans[h.marker] {
				proven = proven || s.Contains(h.revision)
			}
			if !proven {
				t.Fatalf("revision %d under %s is not proven: %+v", h.revision, h.marker, answer)
			}
		}
	}
	if n < enough {
		t.Errorf("the agent has received %d revisions, want %d", n, enough)
	}
}
