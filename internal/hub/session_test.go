package hub_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// fixture is a hub with a space, two locations and one placed object.
func fixture(t *testing.T, configure ...func(*hub.Config)) *running {
	t.Helper()
	r := start(t, t.TempDir(), configure...)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", nil)
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	return r
}

func TestReports(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	one := wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: "u", State: wire.Failed, Reason: "Refused"}}
	first := a.report(one, wire.ReportLine{Key: "../../x", Report: one.Report}, wire.ReportLine{Key: "s/core/configmaps/default/two"})
	if len(first.Refused) != 2 {
		t.Fatalf("refused %+v, want the two bad lines", first.Refused)
	}
	if err := r.Table.WaitFor(limit.Context(t, "the table shows the report"), first.Revision); err != nil {
		t.Fatal(err)
	}
	row, _ := r.Table.Get("r/a/s/placed/core/configmaps/default/one")
	if row == nil || row.ModRev != first.Revision {
		t.Fatalf("the report is not in the log at revision %d", first.Revision)
	}
	again := a.report(one) // its revision is the log's, to which the hub itself may have written
	if err := r.Table.WaitFor(limit.Context(t, "the table shows a revision"), again.Revision); err != nil {
		t.Fatal(err)
	}
	if row, _ := r.Table.Get(row.Key); row == nil || row.ModRev != first.Revision {
		t.Fatal("an equal report was written again")
	}
	a.report(wire.ReportLine{Key: one.Key, Removed: true})
	if err := r.WaitCommitted(limit.Context(t, "the table is current")); err != nil {
		t.Fatal(err)
	}
	if row, _ := r.Table.Get("r/a/s/placed/core/configmaps/default/one"); row != nil {
		t.Fatal("the removed report is still there")
	}
}

// TestConnected shows that the condition follows the session, after a delay
// when it ends.
func TestConnected(t *testing.T) {
	t.Parallel()
	var hours clock
	r := start(t, t.TempDir(), hours.moved)
	r.addLocation("a", nil)
	r.loses(&hours, "a")
	s := r.join("a").open(0, "")
	s.next()
	r.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	s.close()
	r.loses(&hours, "a")
}
