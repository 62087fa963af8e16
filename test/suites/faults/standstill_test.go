//go:build soak

package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// silence is the time without contact to an agent after which a hub of this test reports the
// location as disconnected.
const silence = 10 * time.Second

// TestHubDiskStandsStill freezes the disk of an embedded log for longer than the hub waits for
// agents, and restarts an agent meanwhile. The hub is not ready, and reports no location as
// disconnected. Once the disk answers again, the hub continues with all acknowledged writes. The
// agent keeps its cluster as desired all the time. The test needs a file system of its own, which
// not every machine offers; make soak runs it.
func TestHubDiskStandsStill(t *testing.T) {
	t.Parallel()
	hub := env.StartHub(t, "--heartbeat", heartbeat.String(), "--disconnected-after", silence.String())
	hub.Kill()
	disk := env.StartDisk(t, hub.Dir)
	hub.Start()
	e := edgeOf(t, world.ForHub(t, hub), env.StartLink(t, hub.URL))
	e.put("kept", "1")
	e.waitFor("kept", "1")
	for round := range 3 {
		e.connected(metav1.ConditionTrue)
		acknowledged, last := e.freeze(disk, round)
		if !slices.Contains(acknowledged, last) { // the hub may have written it or not
			acknowledged = append(acknowledged, fmt.Sprint(round, "-after"))
			e.put("kept", acknowledged[len(acknowledged)-1])
		}
		e.waitFor("kept", acknowledged[len(acknowledged)-1])
	}
	e.Invariants()
}

// freeze freezes a disk for a while, and returns the values of an object that were acknowledged
// meanwhile, and the last value that was tried.
func (e *edge) freeze(disk *env.Disk, round int) (acknowledged []string, last string) {
	e.t.Helper()
	locations := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations)
	before, err := locations.List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	start := time.Now()
	disk.Freeze()
	e.Agent.Kill()
	e.Agent.Start()
	for since := time.Now(); time.Since(since) < 2*silence; {
		last = fmt.Sprint(round, "-", len(acknowledged))
		ctx, cancel := context.WithTimeout(e.t.Context(), silence)
		_, err := e.source().Apply(ctx, "kept", configMap("kept", last), metav1.ApplyOptions{FieldManager: "test", Force: true})
		cancel()
		if err != nil {
			e.t.Logf("a write: %v", err)
			continue
		}
		acknowledged = append(acknowledged, last)
	}
	if !e.Hub.Running() {
		e.t.Fatal("the hub has ended")
	}
	ready(e.t, e.Hub, false)
	if len(acknowledged) == 0 { // the desired value is still the old one
		e.steal("kept")
		env.Eventually(e.t, soon, func() error {
			_, err := e.target().Get(e.t.Context(), "kept", metav1.GetOptions{})
			return err
		})
	}
	disk.Thaw()
	ready(e.t, e.Hub, true)
	env.Eventually(e.t, soon, func() error { return e.writeRound(round) })
	for _, status := range e.connectedSinceRevision(before.GetResourceVersion(), round) {
		if status != metav1.ConditionTrue {
			e.t.Errorf("the condition Connected was %s, want True", status)
		}
	}
	if n := e.deletions(start); n > 0 {
		e.t.Errorf("the agent deleted %d objects", n)
	}
	return acknowledged, last
}

// writeRound writes the number of a round to the location. A watch that shows it has shown all
// earlier changes.
func (e *edge) writeRound(round int) error {
	_, err := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations).Patch(e.t.Context(), e.Name,
		types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"round":"%d"}}}`, round), metav1.PatchOptions{})
	return err
}

// connectedSinceRevision returns the statuses of the condition Connected of the location from a
// resource version up to the number of a round.
func (e *edge) connectedSinceRevision(version string, round int) (all []metav1.ConditionStatus) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), soon)
	defer cancel()
	w, err := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		e.t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			e.t.Fatalf("a watch from %s: %+v", version, event)
		}
		all = append(all, connectedOf(u))
		if u.GetAnnotations()["round"] == fmt.Sprint(round) {
			return all
		}
	}
	e.t.Fatalf("a watch from %s does not come to round %d", version, round)
	return nil
}
