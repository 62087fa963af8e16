package agent

import (
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestWhatKeepsChanging counts what it costs that an object at the cluster changes each second
// for ten minutes: a report every ten seconds, and nothing at the cluster but its watch. What is
// new, the first change, the last, and that it is gone are reported all the same.
func TestWhatKeepsChanging(t *testing.T) {
	server := httptest.NewTLSServer(nil) // whose certificate will do
	server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		hub, c := protocol.NewHub("paris"), newCluster(rand.New(noRareEvents{}))
		c.littered, c.open = true, true
		hub.Set(func(s *wire.Settings) {
			s.Upsync = []wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps"}}}
		})
		a := &contracted{t: t, hub: hub, dir: dir, ca: ca, line: &lifeline{cluster: c, last: -1}}
		a.Start()
		defer a.Stop()
		id := key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: "leader"}
		line := key.Report{Origin: key.Upsynced, Object: key.Object{Space: "s", Identity: id}}.Line()
		set := func(n int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if n < 0 {
				c.set(id.String(), nil)
				return
			}
			o := &thing{id: id, kind: "ConfigMap", foreign: true, fields: map[string]string{}, owners: map[owner]map[string]bool{}}
			if now := c.objects[id.String()]; now != nil {
				o = now.copy()
			}
			o.fields["data/v"] = fmt.Sprint(n)
			c.set(id.String(), o)
		}
		shows := func(n int, within time.Duration) {
			t.Helper()
			<-time.After(within)
			r, ok := hub.Report(line)
			if ok != (n >= 0) || ok && !strings.Contains(string(r.Object), fmt.Sprintf(`"v":%d`, n)) {
				t.Errorf("%d is reported as %s", n, r.Object)
			}
		}
		<-time.After(time.Minute)
		const soon = 500 * time.Millisecond
		set(0)
		shows(0, soon)
		set(1)
		shows(1, soon)
		const changes = 600
		before := hub.Calls(route.Reports)
		for n := range changes {
			set(2 + n)
			<-time.After(time.Second)
		}
		if reports := hub.Calls(route.Reports) - before; reports < changes/11 || reports > changes/10+1 {
			t.Errorf("of %d changes, one each second, %d are reported", changes, reports)
		}
		shows(changes+1, 15*time.Second)
		c.mu.Lock()
		if n := c.requests[id]; n > 1 {
			t.Errorf("the cluster was asked for it %d times", n)
		}
		c.mu.Unlock()
		<-time.After(time.Minute)
		set(changes + 2) // after a while it is a first change again
		shows(changes+2, soon)
		set(-1)
		shows(-1, soon)
	})
}
