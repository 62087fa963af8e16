package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestSpacesLeaveRoom: spaces without a limit can't fill the log, one alone nor several together: their writes
// are refused while there is room for others, with the next step. What they have can be changed and deleted.
// With a limit of its own a space may go on.
func TestSpacesLeaveRoom(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), withSmallQuota, hurried)
	const piece = 1 << 20
	held := map[key.Space]int{}
	var last error
	spaces := []key.Space{"s", "two", "three"}
	for _, s := range spaces {
		r.addSpace(s)
		for last = nil; last == nil && held[s] < smallQuota/piece; {
			last = tries(func() error {
				_, err := r.space(s).Resource(configMapsGVR).Namespace("default").Create(t.Context(),
					object("v1", "ConfigMap", "default", fmt.Sprint("large-", held[s]), nil, map[string]any{"data": map[string]any{"k": filler(held[s], piece)}}), metav1.CreateOptions{})
				return err
			})
			if last == nil {
				held[s]++
			}
		}
		if last == nil || !strings.Contains(last.Error(), "have an operator set spec.limits.bytes") {
			t.Fatalf("space %q has %d MiB of a log of %d MiB: %v", s, held[s], smallQuota>>20, last)
		}
	}
	if held["s"] < smallQuota/4/piece-1 || held["s"] > smallQuota/4/piece || held["s"]+held["two"]+held["three"] > smallQuota/2/piece {
		t.Errorf("of a log of %d MiB the spaces have %v MiB", smallQuota>>20, held)
	}
	if err := r.update(t.Context(), "large-0", filler(9, piece-1)); err != nil {
		t.Errorf("an update of the same size: %v", err)
	}
	r.mayFill()
	for i := range 3 {
		if err := r.large(t.Context(), http.MethodPost, fmt.Sprint("more-", i), filler(i, piece)); err != nil {
			t.Errorf("with a limit of its own: %v", err)
		}
	}
	r.withinQuota()
}
