package hub_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/wire"
)

var deploymentsGVR = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// TestStatusThatDoesNotFit shows that a status which would make its object too
// large to be written again is left out, and a smaller one comes as any other.
func TestStatusThatDoesNotFit(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addPlacement("s", "q", "x", "big", map[string]any{"returnStatus": "Singleton"})
	made := r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "big", map[string]string{"what": "big"}, map[string]any{
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pad": strings.Repeat("x", 1100<<10)}}}},
	}))
	const k = "s/apps/deployments/default/big"
	a := r.join("a")
	post := func(status string) {
		t.Helper()
		a.reports(wire.ReportLine{Key: k, Report: &wire.Report{UID: string(made.GetUID()), State: wire.Applied, Status: json.RawMessage(status)}})
	}
	post(`{"replicas":1,"conditions":[{"type":"X","status":"True","message":"` + strings.Repeat("y", 450<<10) + `"}]}`)
	post(`{"replicas":2}`)
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + k)
		if row == nil || !strings.Contains(string(row.Value), `"replicas":2`) {
			return "the small status has not come"
		}
		return ""
	})
	post(`{"replicas":3,"conditions":[{"type":"X","status":"True","message":"` + strings.Repeat("y", 450<<10) + `"}]}`)
	post(`{"replicas":4}`)
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + k)
		switch {
		case len(row.Value) > write.DefaultObjectBytes:
			t.Fatalf("the object has %d bytes", len(row.Value))
		case !strings.Contains(string(row.Value), `"replicas":4`):
			return "the last status has not come"
		}
		return ""
	})
}

// TestReportTooLarge checks that a report that is too large keeps its state, contains the size of the status,
// and does not leave an older status at the source.
func TestReportTooLarge(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addPlacement("s", "q", "x", "big", map[string]any{"returnStatus": "Singleton"})
	made := r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "big", map[string]string{"what": "big"}, nil))
	const k = "s/apps/deployments/default/big"
	a := r.join("a")
	for _, c := range []struct{ status, source, message string }{
		{`{"replicas":7}`, `"replicas":7`, ""},
		{`{"replicas":8,"conditions":[{"type":"X","status":"True","message":"` + strings.Repeat("y", wire.MaxReport) + `"}]}`, "", "left out: a report may have 524288"},
		{`{"replicas":9}`, `"replicas":9`, ""},
	} {
		a.reports(wire.ReportLine{Key: k, Report: &wire.Report{UID: string(made.GetUID()), State: wire.Failed, Status: json.RawMessage(c.status)}})
		r.eventually(func() string {
			report, _ := r.Table.Get("r/a/s/placed/" + strings.TrimPrefix(k, "s/"))
			row, _ := r.Table.Get("o/" + k)
			switch {
			case report == nil || !strings.Contains(string(report.Report()), `"state":"Failed"`) || !strings.Contains(string(report.Report()), c.message):
				return "the report is not there"
			case c.source != "" && !strings.Contains(string(row.Value), c.source):
				return "the status is not at the source"
			case c.source == "" && strings.Contains(string(row.Value), `"replicas"`):
				return "the source has the status from before"
			}
			return ""
		})
	}
}
