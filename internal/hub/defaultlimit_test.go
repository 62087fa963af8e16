package hub_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestOneSpaceLeavesRoom: a space without a limit can't fill the log: its writes are refused while there is
// room for another space, with the next step. With a limit of its own it may go on.
func TestOneSpaceLeavesRoom(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), withSmallQuota, hurried)
	r.addSpace("s")
	r.addSpace("other")
	var err error
	count := 0
	for ; err == nil && count < smallQuota>>20; count++ {
		err = r.large(t.Context(), http.MethodPost, filler(count, 0)+"-large", filler(count, 1<<20))
	}
	if err == nil || !strings.Contains(err.Error(), "have an operator set spec.limits.bytes") || count < smallQuota>>22 {
		t.Fatalf("after %d MiB of a log of %d MiB: %v", count, smallQuota>>20, err)
	}
	r.create("other", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, map[string]any{"data": map[string]any{"k": filler(0, 1<<20)}}))
	r.mayFill()
	if err := r.large(t.Context(), http.MethodPost, "more", filler(0, 1<<20)); err != nil {
		t.Errorf("with a limit of its own: %v", err)
	}
}
