package agentapi

import (
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/cost"
)

// reportOf is the report that a hub makes of a line about an object that the location has reported before.
func reportOf(t *testing.T, line wire.ReportLine) (wire.Report, error) {
	t.Helper()
	report, err := key.ParseLine("a", line.Key)
	if err != nil {
		t.Fatal(err)
	}
	writer := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 10})
	writer.Reset(1, []table.Update{{Key: report.Key(), Value: []byte(`{}`), CreateRev: 1, ModRev: 1}})
	a := &reportServer{store: newReportStore(writer.Table, nil, nil)}
	op, err := a.writeOf(agentRequest{location: "a"}, line, func(key.Report, *wire.Report) error { return nil })
	var is wire.Report
	if err == nil && json.Unmarshal(wire.ReportText(op.Value), &is) != nil {
		t.Fatalf("the log gets %q", op.Value)
	}
	return is, err
}

// deployment is a line with a status of a kind whose statuses are decoded by their type.
func deployment(status string) wire.ReportLine {
	return wire.ReportLine{Key: "s/apps/deployments/default/x", Report: &wire.Report{
		UID: "7f0b0d3e-0000-4000-8000-000000000000", State: wire.Applied, Status: json.RawMessage(status),
	}}
}

// nestedStatus is a status with a text of some size within so many levels.
func nestedStatus(levels, size int) string {
	return strings.Repeat(`{"a":`, levels) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("}", levels)
}

// TestStatusesAreReadOnce: what the hub does with a status is in proportion to its size, however deeply it is nested; one
// that is too large is not looked into.
func TestStatusesAreReadOnce(t *testing.T) {
	const levels = 9000
	for what, status := range map[string]string{"deep": nestedStatus(levels, 1<<17), "deep and large": nestedStatus(levels, 1<<20)} {
		t.Run(what, func(t *testing.T) {
			line := deployment(status)
			cost.Within(t, 100, func() { json.Valid([]byte(status)) }, func() {
				report, err := reportOf(t, line)
				if err != nil || report.Status != nil || report.StatusBytes != len(status) || report.State != wire.Applied {
					t.Fatalf("%v: %d bytes of status are kept, %d are said to be left out: %s", err, len(report.Status), report.StatusBytes, report.Message)
				}
			})
		})
	}
}

// TestUnfitStatuses: a status that the hub does not take is left out with the reason in the message; the state arrives.
func TestUnfitStatuses(t *testing.T) {
	for what, c := range map[string]struct{ status, kept, message string }{
		"as deep as can be": {strings.Repeat(`{"a":`, wire.MaxStatusDepth) + "1" + strings.Repeat("}", wire.MaxStatusDepth), "same", ""},
		"too deep":          {strings.Repeat(`{"a":`, wire.MaxStatusDepth+1) + "1" + strings.Repeat("}", wire.MaxStatusDepth+1), "", "nested 100 levels deep"},
		"a name twice":      {`{"replicas":1,"conditions":[],"replicas":2}`, "", `the field "replicas" twice`},
		"… spelled":         {`{"a":[{"b":1,"\u0062":2}]}`, "", `the field "b" twice`},
		"no UTF-8":          {"{\"phase\":\"\xff\xfe!\"}", `{"phase":"` + "\uFFFD" + `!"}`, ""},
		"a name twice then": {"{\"\xff\":1,\"\xfe\":2}", "", "twice"},
	} {
		report, err := reportOf(t, deployment(c.status))
		want := c.kept
		if want == "same" {
			want = c.status
		}
		if err != nil || string(report.Status) != want || !strings.Contains(report.Message, c.message) || report.State != wire.Applied {
			t.Errorf("%s: %v, the status is %q, the message %q", what, err, report.Status, report.Message)
		}
		if (want == "") != (report.StatusBytes > 0) {
			t.Errorf("%s: %d bytes are said to be left out", what, report.StatusBytes)
		}
	}
	if _, err := reportOf(t, deployment(`{"a":[{"b":1e99999}]}`)); err == nil {
		t.Error("a huge quantity is taken")
	}
}
