package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestMaxWatches: who opens more watches than the hub has room for is told so, and to come
// again; another space has its part, and what ends makes room.
func TestMaxWatches(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), func(c *hub.Config) { c.MaxWatches = 4 })
	r.addSpace("s")
	r.addSpace("other")
	open := func(s key.Space) (watch.Interface, error) {
		return r.space(s).Resource(configMapsGVR).Namespace("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	}
	var mine []watch.Interface
	for range 3 {
		w, err := open("s")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		mine = append(mine, w)
	}
	refused := func() string { // asked once: stock clients obey, and ask ten times
		code, body := r.as("op", masters).send("GET /spaces/s/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1", "")
		if code != http.StatusTooManyRequests || !strings.Contains(body, "watches are open") || !strings.Contains(body, `"retryAfterSeconds":`) {
			return fmt.Sprintf("a watch too many: %d %s", code, body)
		}
		return ""
	}
	if text := refused(); text != "" {
		t.Error(text)
	}
	others, err := open("other")
	if err != nil {
		t.Fatalf("one space has all the room: %v", err)
	}
	defer others.Stop()
	if list, err := r.space("s").Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list beside that: %v, %v", list, err)
	}
	mine[0].Stop()
	r.eventually(func() string {
		w, err := open("s")
		if err != nil {
			return err.Error()
		}
		w.Stop()
		return ""
	})
}

// TestQuotaFollowsMemory: the log of a hub is not to become larger than it can hold, unless the
// operator says how large it may be.
func TestQuotaFollowsMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		memory, quota, want int64
	}{
		"a small machine":       {2 << 30, 0, 512 << 20},
		"one that says no more": {0, 0, 8 << 30},
		"a large one":           {1 << 40, 0, 8 << 30},
		"as it was told":        {2 << 30, 1 << 30, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, t.TempDir(), func(h *hub.Config) { h.Memory, h.Quota = c.memory, c.quota })
			if got := r.Log.Usage().Quota; got != c.want {
				t.Errorf("the quota is %d, want %d", got, c.want)
			}
		})
	}
}
