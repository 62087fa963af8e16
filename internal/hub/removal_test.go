package hub_test

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// removing is a hub with a Placement whose objects wait for their removal, and two
// locations with agents that confirm.
type removing struct {
	*running
	agents map[key.Location]*testAgent
}

func newRemoving(t *testing.T) *removing {
	t.Helper()
	r := &removing{start(t, t.TempDir()), map[key.Location]*testAgent{}}
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b", "never"} {
		r.addLocation(l, map[string]string{"where": "x"})
	}
	r.addLocation("elsewhere", nil)
	r.addPlacement("s", "p", "x", "app", nil)
	r.waits("true")
	for _, l := range []key.Location{"a", "b"} {
		r.agents[l] = r.join(l)
		r.agents[l].Capabilities = wire.Confirms
	}
	return r
}

// waits sets the field of the Placement.
func (r *removing) waits(value string) {
	r.t.Helper()
	body := []byte(`{"spec":{"waitForRemoval":` + value + `}}`)
	if _, err := r.space("s").Resource(placementsGVR).Patch(r.t.Context(), "p", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func pathIn(namespace, name string) string {
	return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: namespace, Name: name}}.Path()
}

// frameOf returns the frame about a ConfigMap that the agent of a location received last.
func (r *removing) frameOf(l key.Location, namespace, name string) wire.Frame {
	r.t.Helper()
	return r.agents[l].fetch(wire.Fetch{Key: pathIn(namespace, name)})[0]
}

// report makes a location report a ConfigMap with the UID that it has received.
func (r *removing) report(l key.Location, namespace, name string, state wire.State, reason string) {
	r.t.Helper()
	f := r.frameOf(l, namespace, name)
	uid := ""
	switch {
	case f.Put != nil:
		uid = f.Put.UID
	case f.Gone != nil:
		uid = f.Gone.UID
	}
	r.agents[l].reports(wire.ReportLine{Key: pathIn(namespace, name), Report: &wire.Report{UID: uid, State: state, Reason: reason}})
}

// remove deletes a ConfigMap, which is then to be kept, for its locations to remove it.
func (r *removing) remove(name string) {
	r.t.Helper()
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.kept("default", name)
}

func (r *removing) kept(namespace, name string) {
	r.t.Helper()
	o, err := r.space("s").Resource(configMapsGVR).Namespace(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil || o.GetDeletionTimestamp() == nil || !slices.Equal(o.GetFinalizers(), []string{v1alpha1.RemovalFinalizer}) {
		r.t.Fatalf("it is not kept: %v, %v", o, err)
	}
}

func (r *removing) eventuallyRemoved(name string) {
	r.t.Helper()
	r.eventually(func() string {
		_, err := r.space("s").Resource(configMapsGVR).Namespace("default").Get(r.t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return "it is still there: " + text(err)
		}
		return ""
	})
	if f := r.frameOf("a", "default", name); f.Del == nil {
		r.t.Errorf("about a removed object the location receives %+v", f)
	}
}

// TestWaitForRemoval shows that an object whose Placement waits for its removal is there
// until each location has confirmed that it is gone, also one that has never reported it,
// and over a restart; and that it is shown as being removed meanwhile.
func TestWaitForRemoval(t *testing.T) {
	t.Parallel()
	r := newRemoving(t)
	label := map[string]string{"what": "app"}
	r.addConfigMap("one", label, "1")
	r.addConfigMap("only", label, "1")
	for _, l := range []key.Location{"a", "b"} {
		if f := r.frameOf(l, "default", "one"); f.Put == nil || f.Put.Policy != (wire.Policy{}) {
			t.Fatalf("%s receives %+v", l, f)
		}
	}
	r.report("a", "default", "one", wire.Applied, "")
	r.remove("one")
	for _, l := range []key.Location{"a", "b"} {
		f := r.frameOf(l, "default", "one")
		if f.Gone == nil || f.Gone.UID == "" || f.Gone.APIVersion != "v1" || f.Gone.Kind != "ConfigMap" {
			t.Fatalf("%s receives %+v", l, f)
		}
	}
	r.agents["b"].Capabilities = ""
	if f := r.frameOf("b", "default", "one"); f.Del == nil {
		t.Errorf("an agent that can't confirm receives %+v", f)
	}
	r.agents["b"].Capabilities = wire.Confirms
	const it = "core/configmaps/default/one "
	if _, rows := r.statusRows("object", "core/configmaps/default/one"); rows != it+"a Removing \n"+it+"b Removing \n"+it+"never Removing " {
		t.Errorf("it is shown as\n%s", rows)
	}
	if status, _ := r.statusRows("object", "core/configmaps/default/one"); status.Objects[0].Places[1].Cause != "Deleted" || status.Leaving != 3 {
		t.Errorf("the answer is %s", text(status))
	}
	r.report("a", "default", "one", wire.Removed, "")
	r.report("b", "default", "one", wire.Removing, "Terminating")
	if _, rows := r.statusRows("object", "core/configmaps/default/one"); !strings.HasPrefix(rows, it+"b Removing Terminating\n") {
		t.Errorf("half removed it is shown as\n%s", rows)
	}
	dir := r.dir
	r.stop()
	*r.running = *start(t, dir)
	for _, a := range r.agents {
		a.r = r.running
	}
	r.kept("default", "one")
	r.report("b", "default", "one", wire.Removed, "")
	r.eventuallyRemoved("one")
	for _, a := range r.agents {
		a.reports(wire.ReportLine{Key: pathIn("default", "one"), Removed: true})
	}
	if status, rows := r.statusRows("object", ""); strings.Contains(rows, it) || status.Leaving != 0 {
		t.Errorf("removed objects are shown: %s", rows)
	}

	// Let go of is gone, too; a report of an earlier object of the name is not about it.
	r.remove("only")
	r.report("a", "default", "only", wire.Removed, "")
	r.agents["b"].reports(wire.ReportLine{Key: pathIn("default", "only"), Report: &wire.Report{UID: "earlier", State: wire.Removed}})
	r.kept("default", "only")
	r.report("b", "default", "only", wire.Orphaned, v1alpha1.ReasonReleased)
	r.eventuallyRemoved("only")
}

// TestWaitForRemovalEnds shows what else ends the wait, and what does not.
func TestWaitForRemovalEnds(t *testing.T) {
	t.Parallel()
	r := newRemoving(t)
	label := map[string]string{"what": "app"}
	for _, name := range []string{"byhand", "moved", "off", "location", "unplaced"} {
		r.addConfigMap(name, label, "1")
		r.report("a", "default", name, wire.Applied, "")
	}
	// A namespace that is deleted waits for what is in it.
	r.create("s", namespacesGVR, object("v1", "Namespace", "", "n", nil, nil))
	r.create("s", configMapsGVR, object("v1", "ConfigMap", "n", "inside", label, nil))
	if err := r.space("s").Resource(namespacesGVR).Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if f := r.frameOf("b", "n", "inside"); f.Gone == nil {
			return "the location receives " + text(f)
		}
		return ""
	})
	r.kept("n", "inside")
	for _, l := range []key.Location{"a", "b"} {
		r.report(l, "n", "inside", wire.Removed, "")
	}
	r.eventually(func() string {
		if _, err := r.space("s").Resource(namespacesGVR).Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the namespace is there: " + text(err)
		}
		return ""
	})

	// A user that removes the finalizer does not wait; the locations remove the object all the same.
	r.remove("byhand")
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := r.space("s").Resource(configMapsGVR).Namespace("default").Patch(t.Context(), "byhand", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyRemoved("byhand")
	if _, rows := r.statusRows("object", "core/configmaps/default/byhand"); rows != "core/configmaps/default/byhand a Removing " {
		t.Errorf("it is shown as %q", rows)
	}

	// Turned off, the next deletion does not wait; one that does goes on.
	r.remove("off")
	r.waits("false")
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "unplaced", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyRemoved("unplaced")
	r.kept("default", "off")
	r.waits("true")
	for _, l := range []key.Location{"a", "b"} {
		r.report(l, "default", "off", wire.Removed, "")
	}
	r.eventuallyRemoved("off")

	// Without its Placement, what is reported is still waited for.
	r.remove("moved")
	if err := r.space("s").Resource(placementsGVR).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if f := r.frameOf("a", "default", "moved"); f.Del == nil {
		t.Errorf("the location receives %+v", f)
	}
	r.kept("default", "moved")
	r.agents["a"].reports(wire.ReportLine{Key: pathIn("default", "moved"), Removed: true})
	r.eventuallyRemoved("moved")

	// The end of a location ends the wait for it.
	r.addPlacement("s", "p", "x", "app", nil)
	r.waits("true")
	r.report("b", "default", "location", wire.Applied, "")
	r.remove("location")
	r.report("a", "default", "location", wire.Removed, "")
	r.kept("default", "location")
	if err := r.space(key.Root).Resource(locationsGVR).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyRemoved("location")
}

// TestRemovalAfterFinalizers shows that an object that is deleted in the space stays at its locations until its last
// finalizer is removed, with onRemove: AfterFinalizers, and leaves them at once without it. A wait for the removal begins
// after that.
func TestRemovalAfterFinalizers(t *testing.T) {
	t.Parallel()
	const finalizer = "example.com/f"
	r := newRemoving(t)
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	set := func(body string) {
		t.Helper()
		if _, err := r.space("s").Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, body string) {
		t.Helper()
		if _, err := configMaps.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deleted := func(name string) {
		t.Helper()
		o := object("v1", "ConfigMap", "default", name, map[string]string{"what": "app"}, map[string]any{"data": map[string]any{"k": "1"}})
		o.SetFinalizers([]string{finalizer})
		r.create("s", configMapsGVR, o)
		for _, l := range []key.Location{"a", "b"} {
			r.report(l, "default", name, wire.Applied, "")
		}
		if err := configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	receives := func(name, what string, is func(f wire.Frame) bool) {
		t.Helper()
		r.eventually(func() string {
			if f := r.frameOf("a", "default", name); !is(f) {
				return "about " + name + " the location receives " + text(f) + ", want " + what
			}
			return ""
		})
	}
	put := func(f wire.Frame) bool { return f.Put != nil }
	gone := func(f wire.Frame) bool { return f.Gone != nil }
	del := func(f wire.Frame) bool { return f.Del != nil }
	finalizers := func(name string) []string {
		t.Helper()
		o, err := configMaps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || o.GetDeletionTimestamp() == nil {
			t.Fatalf("%s is not being deleted: %v, %v", name, o, err)
		}
		return o.GetFinalizers()
	}

	set(`{"spec":{"waitForRemoval":false}}`)
	deleted("default")
	receives("default", "a removal", del)

	set(`{"spec":{"onRemove":"AfterFinalizers"}}`)
	deleted("one")
	receives("one", "the object", put)
	if _, rows := r.statusRows("object", "core/configmaps/default/one"); strings.Contains(rows, "Removing") {
		t.Errorf("it is shown as\n%s", rows)
	}
	patch("one", `{"data":{"k":"2"}}`)
	receives("one", "the changed object", func(f wire.Frame) bool { return put(f) && strings.Contains(string(f.Put.Object), `"2"`) })
	if f := r.frameOf("a", "default", "one"); strings.Contains(string(f.Put.Object), "deletionTimestamp") || strings.Contains(string(f.Put.Object), finalizer) {
		t.Errorf("the location receives %s", f.Put.Object)
	}
	patch("one", `{"metadata":{"finalizers":null}}`)
	receives("one", "a removal", del)
	if status, rows := r.statusRows("object", "core/configmaps/default/one"); len(status.Objects) != 1 || status.Objects[0].Places[0].Cause != "Deleted" {
		t.Errorf("it is shown as\n%s", rows)
	}

	// A change of the policy applies to an object that is being deleted.
	deleted("changed")
	receives("changed", "the object", put)
	set(`{"spec":{"onRemove":"Delete"}}`)
	receives("changed", "a removal", del)

	// The wait for the removal begins when the other finalizer is gone.
	set(`{"spec":{"onRemove":"AfterFinalizers","waitForRemoval":true}}`)
	deleted("waits")
	r.addConfigMap("other", map[string]string{"what": "app"}, "1")
	r.remove("other")
	for _, l := range []key.Location{"a", "b"} {
		r.report(l, "default", "other", wire.Removed, "")
	}
	r.eventuallyRemoved("other") // the controller has had its turn
	if all := finalizers("waits"); !slices.Equal(all, []string{finalizer, v1alpha1.RemovalFinalizer}) {
		t.Errorf("the finalizers are %q", all)
	}
	receives("waits", "the object", put)
	patch("waits", `{"metadata":{"finalizers":["`+v1alpha1.RemovalFinalizer+`"]}}`)
	receives("waits", "an entry that is to be gone", gone)
	r.kept("default", "waits")
	for _, l := range []key.Location{"a", "b"} {
		r.report(l, "default", "waits", wire.Removed, "")
	}
	r.eventuallyRemoved("waits")
}

// TestRemovalOfTheAnnounced checks that a deletion waits for a location from which a policy removes the object,
// even if the location has only reported that it is about to create it. This also holds if the location is
// disconnected since, and after a restart of the hub. Locations announce the creation only of objects whose
// deletion waits.
func TestRemovalOfTheAnnounced(t *testing.T) {
	t.Parallel()
	r := newRemoving(t)
	label := map[string]string{"what": "app"}
	r.addConfigMap("one", label, "1")
	r.addConfigMap("unsaid", label, "1")
	if f := r.frameOf("a", "default", "one"); f.Put == nil || !f.Put.ReportFirst {
		t.Fatalf("the location receives %+v", f)
	}
	r.waits("false")
	r.eventually(func() string {
		if f := r.frameOf("a", "default", "one"); f.Put == nil || f.Put.ReportFirst {
			return "about an object that does not wait the location receives " + text(f)
		}
		return ""
	})
	r.waits("true")
	r.report("a", "default", "one", wire.Waiting, v1alpha1.ReasonAnnounced)
	if _, rows := r.statusRows("object", "core/configmaps/default/one"); !strings.HasPrefix(rows, "core/configmaps/default/one a Waiting Announced\n") {
		t.Errorf("what is about to be made is shown as\n%s", rows)
	}
	elsewhere := []byte(`{"metadata":{"labels":{"where":"y"}}}`)
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(t.Context(), "a", types.MergePatchType, elsewhere, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if f := r.frameOf("a", "default", "one"); f.Del == nil {
			return "the location receives " + text(f)
		}
		return ""
	})
	dir := r.dir
	r.stop()
	*r.running = *start(t, dir)
	for _, a := range r.agents {
		a.r = r.running
	}
	for _, name := range []string{"one", "unsaid"} {
		r.remove(name)
		r.report("b", "default", name, wire.Removed, "")
	}
	r.eventuallyRemoved("unsaid")
	r.kept("default", "one")
	status, rows := r.statusRows("object", "core/configmaps/default/one")
	if !strings.HasPrefix(rows, "core/configmaps/default/one a Removing \n") || status.Objects[0].Places[0].Cause != "Deleted" {
		t.Errorf("it is shown as %s", text(status))
	}
	r.agents["a"].reports(wire.ReportLine{Key: pathIn("default", "one"), Removed: true})
	r.eventuallyRemoved("one")
}

// TestWaitForRemovalOfRoot shows that a Placement of root has the deletion of objects of other
// spaces wait, until each location has confirmed that they are gone.
func TestWaitForRemovalOfRoot(t *testing.T) {
	t.Parallel()
	r := newRemoving(t)
	if err := r.space("s").Resource(placementsGVR).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.create(key.Root, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "all", nil, map[string]any{"spec": map[string]any{
		"waitForRemoval": true,
		"spaces":         map[string]any{"names": []any{"s"}},
		"locations":      []any{map[string]any{"names": []any{"a"}}},
		"downsync":       []any{map[string]any{"resources": []any{"configmaps"}}},
	}}))
	r.addConfigMap("one", nil, "1")
	r.eventually(func() string {
		if f := r.frameOf("a", "default", "one"); f.Put == nil || !f.Put.ReportFirst {
			return "the location receives " + text(f)
		}
		return ""
	})
	r.report("a", "default", "one", wire.Applied, "")
	r.remove("one")
	if f := r.frameOf("a", "default", "one"); f.Gone == nil {
		t.Errorf("the location receives %+v", f)
	}
	r.report("a", "default", "one", wire.Removed, "")
	r.eventuallyRemoved("one")
}
