package e2e

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

type placementStatus = v1alpha1.PlacementStatus

// expectCounts waits for the counts of a placement.
func (w *shop) expectCounts(name, what string, ok func(placementStatus) bool) {
	w.t.Helper()
	w.Eventually("placement "+name+": "+what, func() error {
		out, err := env.TryKubectl(w.t, w.space, "get", "placement", name, "-o", "json")
		if err != nil {
			return err
		}
		var p v1alpha1.Placement
		if err := json.Unmarshal([]byte(out), &p); err != nil {
			return err
		}
		if !ok(p.Status) {
			return fmt.Errorf("status is %+v", p.Status)
		}
		return nil
	})
}

// revision is that of the hub's log, as a list in the space says.
func (w *shop) revision() string {
	w.t.Helper()
	list, err := world.Dynamic(w.t, w.Hub.PathConfig("spaces/"+spaceName)).Resource(world.ConfigMaps).List(w.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.t.Fatalf("read the log's revision: %v", err)
	}
	return list.GetResourceVersion()
}

// quietRevision waits until the log's revision has not moved for some seconds.
func (w *shop) quietRevision() string {
	w.t.Helper()
	last, since := w.revision(), time.Now()
	env.Eventually(w.t, world.Soon, func() error {
		if now := w.revision(); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 10*time.Second {
			return fmt.Errorf("the log was written %s ago", quiet.Round(time.Millisecond))
		}
		return nil
	})
	return last
}
