package hub_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/engine/placement"
)

// TestNotAlive has the counting of a hub stop at an object. The liveness probe fails until the
// counting goes on.
func TestNotAlive(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(goOn) })
	var later atomic.Int64
	stops := func(h hub.Internals) {
		followSites(h)
		h.Renderer.Follow = func(object []byte, _ []placement.Input) ([]byte, error) {
			if strings.Contains(string(object), `"name":"stops"`) {
				<-goOn
			}
			return object, nil
		}
	}
	r := startPrepared(t, t.TempDir(), stops, func(c *hub.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	defer unblock() // before the hub is stopped
	r.addSpace("s")
	r.addLocation("a", map[string]string{"in": "yes", "where": "a"})
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"in": "yes"}}}},
		"downsync":  []any{map[string]any{"resources": []any{"configmaps"}}},
	}}))
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"names": []any{"stops"}}},
		"rules": []any{map[string]any{"path": "$.data.x", "release": true}},
	}}))
	if answer := r.answerOf("/livez"); answer != "ok" {
		t.Fatalf("livez answers %q", answer)
	}
	r.addConfigMap("stops", nil, "1")
	r.eventually(func() string {
		later.Add(int64(2 * time.Minute))
		answer := r.answerOf("/livez")
		if !strings.Contains(answer, "has stopped: the log of the hub names the object") {
			return "livez answers " + answer
		}
		return ""
	})
	unblock()
	r.eventually(func() string {
		if answer := r.answerOf("/livez"); answer != "ok" {
			return "livez answers " + answer
		}
		return ""
	})
}
