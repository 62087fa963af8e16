package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestMaxWatches: a user that opens more watches than the hub has room for is refused, and is to come
// again; another user has a part, and each watch that ends makes room.
func TestMaxWatches(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), func(c *hub.Config) { c.MaxWatches = 4 })
	for _, s := range []key.Space{"s", "other"} {
		r.addSpace(s)
		r.grant(s, "of-"+string(s), `{"subjects":[{"kind":"User","name":"of-`+string(s)+`"}],"roles":[{"name":"view"}]}`)
	}
	open := func(ctx context.Context, s string) (code int, body func() string) {
		t.Helper()
		c := r.as("of-" + s)
		c.Timeout = 0
		resp := c.open(ctx, "GET /spaces/"+s+"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0", "")
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.StatusCode, func() string {
			text, _ := io.ReadAll(resp.Body)
			return string(text)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	for range 3 {
		if code, body := open(ctx, "s"); code != http.StatusOK {
			t.Fatal(code, body())
		}
	}
	if code, body := open(ctx, "s"); code != http.StatusTooManyRequests {
		t.Errorf("a watch too many: %d", code)
	} else if text := body(); !strings.Contains(text, "watches are open") || !strings.Contains(text, `"retryAfterSeconds":`) {
		t.Errorf("a watch too many: %s", text)
	}
	if code, body := open(t.Context(), "other"); code != http.StatusOK {
		t.Fatalf("one user has all the room: %d %s", code, body())
	}
	if list, err := r.space("s").Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list beside that: %v, %v", list, err)
	}
	end()
	r.eventually(func() string {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		if code, body := open(ctx, "s"); code != http.StatusOK {
			return fmt.Sprint(code, body())
		}
		return ""
	})
}

// TestQuotaFollowsMemory: the default quota of the log depends on the memory of the hub, unless the operator
// sets the quota.
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
			if got := r.Log.Capacity().Usage().Quota; got != c.want {
				t.Errorf("the quota is %d, want %d", got, c.want)
			}
		})
	}
}
