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
	revision, err := w.tryRevision()
	if err != nil {
		w.t.Fatalf("read the log's revision: %v", err)
	}
	return revision
}

// tryRevision is revision for use in Eventually.
func (w *shop) tryRevision() (string, error) {
	list, err := world.Dynamic(w.t, w.Hub.PathConfig("spaces/"+spaceName)).Resource(world.ConfigMaps).List(w.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// stillness is how long the log's revision does not move once all that was done has come to its end.
const stillness = 10 * time.Second

// quietRevision waits until the log's revision has not moved for a time, and returns it, and since when
// it is that. A loop that writes again within that time never comes to an end of it.
func (w *shop) quietRevision(long time.Duration) (last string, since time.Time) {
	w.t.Helper()
	env.Eventually(w.t, world.Soon, func() error {
		now, err := w.tryRevision()
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < long {
			return fmt.Errorf("the log came to revision %s %s ago", last, quiet.Round(time.Millisecond))
		}
		return nil
	})
	return last, since
}
