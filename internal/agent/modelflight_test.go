package agent

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestLeftWhileItIsMade has an object left to its location, and deleted in its space, while the
// request that makes it is under way: it stays at the location, without marks.
func TestLeftWhileItIsMade(t *testing.T) {
	server := httptest.NewTLSServer(nil) // whose certificate will do
	server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir, left, first := t.TempDir(), 0, int(seeds.Base(t))
	for i := range 12 {
		synctest.Test(t, func(t *testing.T) {
			w := newUpsyncWorld(t, 2*(first+i)-1, fmt.Sprint(dir, "/", i), ca)
			defer func() { w.agent.Stop() }()
			o := key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: "root"}}
			object := func(v int) string {
				return fmt.Sprintf(`{"apiVersion":"v1","data":{"v":"%d"},"kind":"ConfigMap","metadata":{"name":"root","namespace":"a"}}`, v)
			}
			<-time.After(time.Minute)
			w.Put("s/core/configmaps/a/other", "uid-other", strings.Replace(object(0), "root", "other", 1)) // so that the kind is observed
			if i%3 == 0 {                                                                                   // it is changed, and made otherwise
				w.Put(o.Path(), "uid-root", object(0))
			}
			<-time.After(time.Minute)
			slow := func(d time.Duration) {
				w.cluster.mu.Lock()
				defer w.cluster.mu.Unlock()
				w.cluster.weather.slow = d
			}
			slow(20 * time.Second)
			w.Put(o.Path(), "uid-root", object(1))
			<-time.After(time.Second)
			w.Write(wire.Frame{Hold: &wire.Hold{Key: o.Path(), UID: "uid-root", Digest: digest("yield"), Reason: v1alpha1.ReasonUpsynced, Error: "it is asked for"}})
			w.Del(o.Path(), wire.Deleted)
			<-time.After(time.Minute)
			slow(0)
			<-time.After(5 * time.Minute)
			w.cluster.mu.Lock()
			defer w.cluster.mu.Unlock()
			switch current := w.cluster.objects[w.placing.TargetIdentity(o).String()]; {
			case current == nil && i%3 == 0:
				t.Errorf("case %d: what was left to the location is gone", i)
			case current == nil: // it was never made
			case w.placed(current):
				t.Errorf("case %d: it is there with marks: %s", i, current.json)
			default:
				left++
			}
			for _, h := range w.cluster.log {
				if h.after == nil && h.before.id == w.placing.TargetIdentity(o) {
					t.Errorf("case %d: what was left to the location is deleted there", i)
				}
			}
		})
	}
	if left < 8 {
		t.Errorf("it was left in %d of 12 cases", left)
	}
}
