package hub_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// question decodes into v the answer to a query about the space s.
func (r *running) question(v any, what string, query ...string) {
	r.t.Helper()
	all := url.Values{}
	for i := 0; i < len(query); i += 2 {
		all.Set(query[i], query[i+1])
	}
	answer := r.answerOf(route.Question("s").Path(what) + "?" + all.Encode())
	if err := json.Unmarshal([]byte(answer), v); err != nil {
		r.t.Fatalf("%s: %v", answer, err)
	}
}

// statusRows returns the status of the space s for a query, and its rows as OBJECT LOCATION STATE REASON.
func (r *running) statusRows(query ...string) (status queries.SpaceStatus, shown string) {
	r.t.Helper()
	r.question(&status, route.Status, query...)
	var rows []string
	for _, o := range status.Objects {
		for _, p := range o.Places {
			rows = append(rows, strings.Join([]string{o.Object, string(p.Location), p.State, p.Reason}, " "))
		}
	}
	return status, strings.Join(rows, "\n")
}

// reports has a location report an object.
func (a *testAgent) reports(line wire.ReportLine) {
	a.r.t.Helper()
	answer := a.report(line)
	if len(answer.Refused) > 0 {
		a.r.t.Fatalf("reports: %+v", answer)
	}
	if err := a.r.Table.WaitFor(limit.Context(a.r.t, "the table shows a revision"), answer.Revision); err != nil {
		a.r.t.Fatal(err)
	}
}

// TestLeftovers shows that what a location still has, and should not have, is shown until
// it is gone, also when its source and its Placement are gone.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("kept", map[string]string{"what": "app"}, "1")
	r.addConfigMap("other", map[string]string{"what": "app"}, "1")
	a := r.join("a")
	kept := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: "kept"}}
	row := r.row(kept.Key())
	if row.In == nil || !row.In.(*placement.Membership).Contains("a") {
		t.Fatalf("it is not placed: %+v", row)
	}
	r.eventually(func() string {
		if l := r.location("a"); l.Status.Assigned != 2 {
			return "assigned: " + text(l.Status)
		}
		return ""
	})
	report := wire.Report{UID: row.Meta.UID, State: wire.Applied}
	a.reports(wire.ReportLine{Key: kept.Path(), Report: &report})
	if _, rows := r.statusRows("state", "removing,orphaned"); rows != "" {
		t.Fatalf("shown as leaving: %s", rows)
	}
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	counts := func(want v1alpha1.LeftCounts) {
		t.Helper()
		r.eventually(func() string {
			status, _ := r.statusRows()
			if l := r.location("a"); l.Status.LeftCounts != want || status.LeftCounts != want {
				return text(map[string]any{"location": l.Status, "space": status})
			}
			return ""
		})
	}
	counts(v1alpha1.LeftCounts{Leaving: 1})
	report.State, report.Reason, report.Message = wire.Orphaned, "InUse", "there is something"
	a.reports(wire.ReportLine{Key: kept.Path(), Report: &report})
	counts(v1alpha1.LeftCounts{Leftovers: 1})
	const it, rest = "core/configmaps/default/kept a Orphaned InUse", "core/configmaps/default/other a Pending "
	for _, c := range []struct {
		query []string
		want  string
	}{
		{nil, rest + "\n" + it},
		{[]string{"state", "orphaned"}, it},
		{[]string{"state", "pending,failed"}, rest},
		{[]string{"placement", "p"}, rest},
		{[]string{"placement", "q"}, ""},
		{[]string{"namespace", "default"}, rest + "\n" + it},
		{[]string{"namespace", "else"}, ""},
		{[]string{"object", kept.Identity.String()}, it},
	} {
		if _, rows := r.statusRows(c.query...); rows != c.want {
			t.Errorf("%q shows\n%s\nwant\n%s", c.query, rows, c.want)
		}
	}
	var w queries.Why
	if r.question(&w, route.Why, "object", kept.Identity.String(), "location", "a"); w.Decision.Placed || w.Place == nil || !w.Place.Unassigned || w.Place.Message != "there is something" {
		t.Errorf("why says %s", text(w))
	}
	// Which Placement it was of until then is what its report says, also if the source is gone.
	report.Cause, report.LetGoBy = wire.Unassigned, "p"
	a.reports(wire.ReportLine{Key: kept.Path(), Report: &report})
	status, rows := r.statusRows("placement", "p")
	if want := rest + "\n" + it; rows != want {
		t.Errorf("of its Placement is shown\n%s\nwant\n%s", rows, want)
	}
	if p := status.Objects[1].Places[0]; p.LetGoBy != "p" || p.Cause != queries.CauseUnassigned {
		t.Errorf("it is shown as %s", text(p))
	}
	if answer := r.answerOf(route.Question("s").Path(route.Status) + "?object=core/configmaps/default/never"); !strings.Contains(answer, `"reason":"NotFound"`) {
		t.Errorf("what never was is known: %s", answer)
	}
	if err := r.space("s").Resource(placementsGVR).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	counts(v1alpha1.LeftCounts{Leftovers: 1})
	a.reports(wire.ReportLine{Key: kept.Path(), Removed: true})
	counts(v1alpha1.LeftCounts{})
}

// TestFormerObjectsAreNotSynced checks that a Placement is not Synced while a location has an object that the Placement
// had assigned there: one that it no longer matches, also after a restart, or one that waits for its removal.
func TestFormerObjectsAreNotSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	a := r.join("a")
	a.Capabilities = wire.Confirms
	uids := map[string]string{}
	report := func(name string, report wire.Report) {
		t.Helper()
		report.UID = uids[name]
		a.reports(wire.ReportLine{Key: pathIn("default", name), Report: &report})
	}
	for _, name := range []string{"left", "waits", "stays"} {
		r.addConfigMap(name, map[string]string{"what": "app"}, "1")
		put := a.fetch(wire.Fetch{Key: pathIn("default", name)})[0].Put
		uids[name] = put.UID
		report(name, wire.Report{Digest: put.Digest, State: wire.Applied, Health: wire.Healthy})
	}
	becomes := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		r.eventually(func() string {
			p := r.placement()
			if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSynced); c == nil || c.Status != status || c.Reason != reason {
				return "want " + string(status) + " " + reason + ": " + text(p.Status)
			}
			return ""
		})
	}
	objects := func() dynamic.ResourceInterface { return r.space("s").Resource(configMapsGVR).Namespace("default") }
	becomes(metav1.ConditionTrue, "Applied")
	if _, err := objects().Patch(t.Context(), "left", types.MergePatchType, []byte(`{"metadata":{"labels":{"what":"else"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(metav1.ConditionFalse, v1alpha1.ReasonRemoving)
	r.stop()
	r = start(t, dir)
	a.r = r
	becomes(metav1.ConditionUnknown, v1alpha1.ReasonRemoving) // no report names the Placement yet
	report("left", wire.Report{State: wire.Removing, Cause: wire.Unassigned, LetGoBy: "p"})
	becomes(metav1.ConditionFalse, v1alpha1.ReasonRemoving)
	a.reports(wire.ReportLine{Key: pathIn("default", "left"), Removed: true})
	becomes(metav1.ConditionTrue, "Applied")
	if _, err := r.space("s").Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType, []byte(`{"spec":{"waitForRemoval":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := objects().Delete(t.Context(), "waits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(metav1.ConditionFalse, v1alpha1.ReasonRemoving)
	report("waits", wire.Report{State: wire.Removed})
	becomes(metav1.ConditionTrue, "Applied")
}

// TestRemovalOfTheUnreported checks that an agent may report the removal of an object that it had applied and
// not yet reported when it received the removal, and nothing else.
func TestRemovalOfTheUnreported(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	s := a.open(0, "")
	for hello := false; !hello; {
		f, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		hello = f.Hello != nil
	}
	r.addConfigMap("brief", map[string]string{"what": "app"}, "1")
	const path = "s/core/configmaps/default/brief"
	line := wire.ReportLine{Key: path, Report: &wire.Report{UID: "u", State: wire.Removing, Reason: "Terminating"}}
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "brief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for received := false; !received; {
		f, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		received = f.Del != nil && f.Del.Key == path
	}
	a.reports(line)
	status, rows := r.statusRows("state", "removing")
	if rows != "core/configmaps/default/brief a Removing Terminating" || status.Objects[0].Places[0].Cause != "Deleted" || status.Leaving != 1 {
		t.Errorf("it is shown as %s", text(status))
	}
	a.reports(wire.ReportLine{Key: path, Removed: true})
	if _, rows := r.statusRows("state", "removing"); rows != "" {
		t.Errorf("removed objects are shown as %s", rows)
	}
	for _, other := range []string{path, "s/core/configmaps/default/never"} {
		line.Key = other
		if answer := a.report(line); len(answer.Refused) != 1 {
			t.Errorf("a report of %s is taken: %+v", other, answer)
		}
	}
}
