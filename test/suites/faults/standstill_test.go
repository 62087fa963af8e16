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

// silence is after which time without an agent a hub here declares its location lost.
const silence = 10 * time.Second

// TestHubDiskStandsStill has the disk below an embedded log answer nobody for longer than the hub
// waits for agents, while one agent is started anew: the hub says that it is not ready, declares
// nobody lost whom it could not hear, and goes on when the disk does, with all that it had
// acknowledged; the cluster is kept as it should be all the while. It needs a file system of its own,
// which not every machine has for a test: make soak runs it.
func TestHubDiskStandsStill(t *testing.T) {
	t.Parallel()
	hub := env.StartHub(t, "--heartbeat", heartbeat.String(), "--disconnected-after", silence.String())
	hub.Kill()
	disk := env.StartDisk(t, hub.Dir)
	hub.Start()
	e := edgeOf(t, world.ForHub(t, hub), env.StartLink(t, hub.URL))
	e.put("kept", "1")
	e.has("kept", "1")
	for round := range 3 {
		e.connected(metav1.ConditionTrue)
		acknowledged, last := e.stands(disk, round)
		if !slices.Contains(acknowledged, last) { // whether it was written nobody knows
			acknowledged = append(acknowledged, fmt.Sprint(round, "-after"))
			e.put("kept", acknowledged[len(acknowledged)-1])
		}
		e.has("kept", acknowledged[len(acknowledged)-1])
	}
	e.Invariants()
}

// stands has a disk stand still, and returns which values of an object were acknowledged, and the
// last that was tried.
func (e *edge) stands(disk *env.Disk, round int) (acknowledged []string, last string) {
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
	if len(acknowledged) == 0 { // what it has is what was there
		e.steal("kept")
		env.Eventually(e.t, soon, func() error {
			_, err := e.target().Get(e.t.Context(), "kept", metav1.GetOptions{})
			return err
		})
	}
	disk.Thaw()
	ready(e.t, e.Hub, true)
	env.Eventually(e.t, soon, func() error { return e.marks(round) })
	for _, said := range e.saidSince(before.GetResourceVersion(), round) {
		if said != metav1.ConditionTrue {
			e.t.Errorf("the location was said to be connected: %s", said)
		}
	}
	if n := e.deletions(start); n > 0 {
		e.t.Errorf("the agent deleted %d objects", n)
	}
	return acknowledged, last
}

// marks writes a round to the location, by which those see that watch it that they have seen all
// before.
func (e *edge) marks(round int) error {
	_, err := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations).Patch(e.t.Context(), e.Name,
		types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"round":"%d"}}}`, round), metav1.PatchOptions{})
	return err
}

// saidSince are the statuses of the location's condition Connected from a revision to the mark of
// a round.
func (e *edge) saidSince(version string, round int) (all []metav1.ConditionStatus) {
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
