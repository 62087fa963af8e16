package hub_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// placement reads the Placement p.
func (r *running) placement() (p v1alpha1.Placement) {
	r.t.Helper()
	u, err := r.space("s").Resource(placementsGVR).Get(r.t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// eventuallyWaiting waits until the Placement reports the wanted pending removals.
func (r *running) saysWaiting(want v1alpha1.WaitingPrune) (p v1alpha1.Placement) {
	r.t.Helper()
	r.eventually(func() string {
		p = r.placement()
		w := p.Status.Prune
		if w == nil || w.Pending != want.Pending || w.Locations != want.Locations || (w.Digest == "") != (want.Digest == "") {
			return "it says " + text(p.Status)
		}
		return ""
	})
	return p
}

func waitingAt(digest string, pending int) wire.AgentStatus {
	if pending == 0 {
		return wire.AgentStatus{}
	}
	return wire.AgentStatus{Prune: &wire.PruneStatus{
		Pending: pending, Digest: digest,
		Spaces:     []wire.SpacePrune{{Space: "s", Pending: pending, Digest: digest}},
		Placements: []wire.PlacementPrune{{Space: "s", Placement: "p", Pending: pending, Digest: digest}},
	}}
}

// TestConfirmOverLocations checks that one digest confirms the pending removals of several locations, also
// while an agent is away and after a restart of the hub, but no later removals.
func TestConfirmOverLocations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addPlacement("s", "p", "x", "app", nil)
	r.addLocation("a", map[string]string{"where": "y"})
	r.addLocation("b", map[string]string{"where": "y"})
	a, b := r.join("a"), r.join("b")
	a.open(0, "").next()
	away := b.open(0, "")
	away.next()
	r.addPlacement("s", "q", "y", "other", nil)
	r.addConfigMap("one", map[string]string{"what": "other"}, "1")
	a.hasOne()
	b.hasOne()
	a.tell(waitingAt("A", 2))
	b.tell(waitingAt("B", 3))
	p := r.saysWaiting(v1alpha1.WaitingPrune{Pending: 5, Locations: 2, Digest: "any"})
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSynced)
	if want := "5 removals wait at 2 locations, more at once than these allow; to let them go, run: orrery placement confirm-prune p --digest " + p.Status.Prune.Digest; c.Reason != v1alpha1.ReasonPruneGuard || c.Message != want {
		t.Errorf("it says %+v, want %q", c, want)
	}
	away.close()
	if _, err := r.space("s").Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"orrery.dev/confirm-prune":"`+p.Status.Prune.Digest+`"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.saysWaiting(v1alpha1.WaitingPrune{Pending: 5, Locations: 2})
	received := func(a *testAgent, digest string) bool {
		s := a.open(0, "")
		defer s.close()
		hello, _ := s.next()
		return slices.Contains(hello.Hello.Settings.Confirm, wire.Confirmation{Space: "s", Digest: digest})
	}
	if !received(a, "A") || received(a, "B") {
		t.Error("a does not receive exactly the confirmations for it")
	}
	a.tell(waitingAt("", 0))
	r.saysWaiting(v1alpha1.WaitingPrune{Pending: 3, Locations: 1})

	r.stop()
	r = start(t, dir)
	b.r, a.r = r, r
	if !received(b, "B") {
		t.Error("b does not receive the confirmation when it is back")
	}
	if confirmed := r.saysWaiting(v1alpha1.WaitingPrune{Pending: 3, Locations: 1}).Status.Confirmed; len(confirmed) != 1 || confirmed[0].Location != "b" {
		t.Errorf("confirmed: %+v", confirmed)
	}
	// More removals become pending before the agent receives it: they are not confirmed.
	b.tell(waitingAt("C", 4))
	p = r.saysWaiting(v1alpha1.WaitingPrune{Pending: 4, Locations: 1, Digest: "another"})
	if len(p.Status.Confirmed) != 0 || received(b, "C") || received(b, "B") {
		t.Errorf("confirmed: %+v", p.Status.Confirmed)
	}
	b.tell(waitingAt("", 0))
	r.eventually(func() string {
		p := r.placement()
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSynced); p.Status.Prune != nil || c.Reason != v1alpha1.ReasonNoObjects {
			return "it says " + text(p.Status)
		}
		return ""
	})
}

// hasOne has an agent report that its location has the object one of the space s.
func (a *testAgent) hasOne() {
	a.r.t.Helper()
	a.reports(wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{State: wire.Applied}})
}

// TestPruneOfOtherSpaces has an agent claim that removals of a Placement wait, in a space
// of which its location has nothing.
func TestPruneOfOtherSpaces(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addSpace("z")
	r.addPlacement("z", "p", "x", "app", nil)
	a := r.join("a")
	a.open(0, "").next()
	a.hasOne()
	status := waitingAt("A", 3)
	status.Prune.Spaces = append(status.Prune.Spaces, wire.SpacePrune{Space: "z", Pending: 1, Digest: "Z"})
	status.Prune.Placements = append(status.Prune.Placements, wire.PlacementPrune{Space: "z", Placement: "p", Pending: 1, Digest: "Z"})
	a.tell(status)
	l := r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonPruneGuard)
	got := l.Status.Agent.Prune
	if len(got.Placements) != 1 || got.Placements[0].Space != "s" || len(got.Spaces) != 1 || got.Spaces[0].Space != "s" || got.Pending != 3 {
		t.Errorf("the location's status has %+v", got)
	}
	if w := r.Pruned.Waiting("z"); len(w) != 0 {
		t.Errorf("of the other space there waits %+v", w)
	}
}

// TestRecreationWaits: an object that waits to be deleted and made anew is explained with the
// digest that confirms that.
func TestRecreationWaits(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	a.open(0, "").next()
	one, err := r.space("s").Resource(configMapsGVR).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.reports(wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{
		UID: string(one.GetUID()), State: wire.Waiting, Reason: v1alpha1.ReasonPruneGuard,
	}})
	a.tell(wire.AgentStatus{Prune: &wire.PruneStatus{
		Pending: 1, Digest: "A", Spaces: []wire.SpacePrune{{Space: "s", Pending: 1, Digest: "A"}},
		Placements: []wire.PlacementPrune{{Space: "s", Pending: 1, Digest: "A"}},
	}})
	r.eventually(func() string {
		var why queries.Why
		r.question(&why, route.Why, "object", "core/configmaps/default/one", "location", "a")
		if why.Place == nil || why.Place.Reason != v1alpha1.ReasonPruneGuard || len(why.Waiting) != 1 || why.Waiting[0].Pending != 1 || why.Waiting[0].Digest == "" {
			return "it says " + text(why)
		}
		return ""
	})
}
