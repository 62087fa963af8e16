package life

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/test/support/env"
)

const fullQuota = 32 << 20

// TestFullExternalLog shows that a hub whose etcd has raised its alarm, and refuses every
// put, starts, serves reads and deletions, reports that the log is full, and works as
// before once etcd has room.
func TestFullExternalLog(t *testing.T) {
	t.Parallel()
	h := startHubAt(t, env.StartEtcd(t, fmt.Sprint("--quota-backend-bytes=", fullQuota)))
	s := h.space("s")
	for i := range 4 {
		s.post(configMaps, large(fmt.Sprint("large-", i))).is(t, http.StatusCreated, "create")
	}
	h.Stop()
	h.fillBeside()
	h.Start()
	h.isFull()
	if got := s.get(configMaps + "/large-0"); got.code != http.StatusOK {
		t.Fatalf("read of a full hub: %s", got)
	}
	refused := s.post(configMaps, configMap("more", ""))
	if refused.code != http.StatusInsufficientStorage || refused.field("reason").String() != "LogFull" {
		t.Errorf("create in a full hub: %s", refused)
	}
	s.delete(configMaps+"/large-0").is(t, http.StatusOK, "delete in a full hub")
	s.get(configMaps+"/large-0").is(t, http.StatusNotFound, "read of what was deleted")
	h.Restart() // without a marker once more
	h.isFull()

	// What took the room goes, and the operator defragments: the rest is the hub's.
	if _, err := h.etcd.Delete(t.Context(), "/beside/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	s.delete(configMaps+"/large-1").is(t, http.StatusOK, "delete in a full hub")
	env.Eventually(t, soon, func() error { // the hub compacts
		if _, err := h.etcd.Defragment(t.Context(), h.etcd.Endpoints()[0]); err != nil {
			return err
		}
		got, err := h.request(t.Context(), http.MethodGet, "/readyz", "", "")
		if err == nil && string(got.raw) != "ok" {
			err = fmt.Errorf("readyz: %s", got)
		}
		return err
	})
	env.Eventually(t, soon, func() error {
		if markers := h.keys("m"); len(markers) < 2 {
			return fmt.Errorf("the log has markers %q: none of the start without room", markers)
		}
		return nil
	})
	s.post(configMaps, large("more")).is(t, http.StatusCreated, "create once there is room")
}

func large(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":%q}}`, name, strings.Repeat("x", 1<<20))
}

// fillBeside has others fill the hub's etcd until it refuses every put.
func (h *hub) fillBeside() {
	h.t.Helper()
	for i := range 1000 {
		_, err := h.etcd.Put(h.t.Context(), fmt.Sprint("/beside/", i), strings.Repeat("x", 1<<20))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			h.t.Logf("etcd is full after %d: %v", i, err)
			return
		}
		if err != nil {
			h.t.Logf("etcd is slow: %v", err)
		}
	}
	h.t.Fatal("etcd never gets full")
}

// isFull waits until the readiness check, the metrics and the statuses of spaces report that the log
// is full.
func (h *hub) isFull() {
	h.t.Helper()
	env.Eventually(h.t, soon, func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
		defer cancel()
		for path, want := range map[string]string{
			"/readyz": "out of space", "/metrics": "\norrery_log_full 1\n", spaces + "/s": `"reason":"LogFull"`,
		} {
			got, err := h.request(ctx, http.MethodGet, path, "", "")
			if err != nil {
				return err
			}
			if got.code != http.StatusOK || !strings.Contains(string(got.raw), want) {
				return fmt.Errorf("%s: %s, want %q", path, got, want)
			}
		}
		return nil
	})
}
