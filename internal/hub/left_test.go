package hub

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/wire"
)

// asked are the rows that a filter shows of the space s, as OBJECT LOCATION STATE REASON.
func (r *running) asked(f statusFilter) (SpaceStatus, string) {
	r.t.Helper()
	answer := httptest.NewRecorder()
	r.writeStatus(r.t.Context(), answer, "s", f)
	var status SpaceStatus
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		r.t.Fatal(err)
	}
	var rows []string
	for _, o := range status.Objects {
		for _, p := range o.Places {
			rows = append(rows, strings.Join([]string{o.Object, p.Location, p.State, p.Reason}, " "))
		}
	}
	return status, strings.Join(rows, "\n")
}

// reports has a location report an object.
func (a *agent) reports(line wire.ReportLine) {
	a.r.t.Helper()
	answer := a.report(line)
	if len(answer.Refused) > 0 {
		a.r.t.Fatalf("reports: %+v", answer)
	}
	if err := a.r.table.WaitFor(a.r.t.Context(), answer.Revision); err != nil {
		a.r.t.Fatal(err)
	}
}

// TestLeftovers shows that what a location still has, and is not to have, is seen
// until it is gone, also when neither its source nor its Placement is there any more.
func TestLeftovers(t *testing.T) {
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("kept", map[string]string{"what": "app"}, "1")
	r.addConfigMap("other", map[string]string{"what": "app"}, "1")
	a := r.join("a")
	kept := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: "kept"}}
	row, _ := r.table.Get(kept.Key())
	if row == nil || row.In == nil || !row.In.(*placement.Membership).Has("a") {
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
	if _, rows := r.asked(statusFilter{states: []string{"removing", "orphaned"}}); rows != "" {
		t.Fatalf("shown as leaving: %s", rows)
	}
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	counts := func(want v1alpha1.LeftCounts) {
		t.Helper()
		r.eventually(func() string {
			status, _ := r.asked(statusFilter{})
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
		f    statusFilter
		want string
	}{
		{statusFilter{}, rest + "\n" + it},
		{statusFilter{states: []string{"orphaned"}}, it},
		{statusFilter{states: []string{"pending", "failed"}}, rest},
		{statusFilter{placement: "p"}, rest},
		{statusFilter{placement: "q"}, ""},
		{statusFilter{namespace: "default"}, rest + "\n" + it},
		{statusFilter{namespace: "else"}, ""},
		{statusFilter{object: kept.Identity.String()}, it},
	} {
		if _, rows := r.asked(c.f); rows != c.want {
			t.Errorf("%+v shows\n%s\nwant\n%s", c.f, rows, c.want)
		}
	}
	if w := r.why(kept, "a"); w.Decision.Placed || w.Place == nil || !w.Place.Unassigned || w.Place.Message != "there is something" {
		t.Errorf("why says %s", text(w))
	}
	if err := r.known(r.table.Snapshot(), "s", kept.Identity.String()); err != nil {
		t.Errorf("what stays is not known: %v", err)
	}
	if err := r.known(r.table.Snapshot(), "s", "core/configmaps/default/never"); err == nil {
		t.Error("what never was is known")
	}
	if err := r.space("s").Resource(placementsGVR).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	counts(v1alpha1.LeftCounts{Leftovers: 1})
	a.reports(wire.ReportLine{Key: kept.Path(), Removed: true})
	counts(v1alpha1.LeftCounts{})
}
