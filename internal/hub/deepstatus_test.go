package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// deepStatus is a status of so many levels.
func deepStatus(levels int) string {
	return strings.Repeat(`{"a":`, levels) + `"deep"` + strings.Repeat("}", levels)
}

// TestDeepStatuses: however deeply a status is nested that a location reports, or that an older hub has kept, its object can
// be patched, and can be read in its space and in the view of reports.
func TestDeepStatuses(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	const crds, opens = "/spaces/s/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/spaces/s/apis/example.org/v1/namespaces/default/opens"
	const reports = "/views/reports/spaces/s/locations/a/apis/example.org/v1/namespaces/default/opens"
	open := definitionOf(t, "opens", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	if code, body := admin.send("POST "+crds, open); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	r.eventually(func() string {
		if code, body := admin.send("GET "+opens, ""); code != http.StatusOK {
			return body
		}
		return ""
	})
	r.addPlacement("s", "opens", "x", "open", map[string]any{"returnStatus": "Singleton"})
	a := r.join("a")
	object := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("example.org", "opens"), Namespace: "default"}}
	for i, c := range []struct {
		what    string
		levels  int
		isStale bool // by an older hub
		comes   bool
	}{
		{"as deep as can be", wire.MaxStatusDepth, false, true},
		{"deeper", wire.MaxStatusDepth + 1, false, false},
		{"deeper than users may write", 150, false, false},
		{"as deep as JSON can be read", 9998, false, false},
		{"kept by an older hub", 150, true, false},
		{"kept by an older hub, as deep as JSON can be read", 9998, true, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			object.Name = fmt.Sprint("open-", i)
			code, made := admin.send("POST "+opens, fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Opens","metadata":{"name":%q,"labels":{"what":"open"}}}`, object.Name))
			if code != http.StatusCreated {
				t.Fatal(code, made)
			}
			report := wire.Report{UID: gjson.Get(made, "metadata.uid").Str, State: wire.Applied, Status: json.RawMessage(deepStatus(c.levels))}
			if c.isStale {
				r.keep(t, object, &report)
			} else if answer := a.report(wire.ReportLine{Key: object.Path(), Report: &report}); len(answer.Refused) > 0 {
				t.Fatalf("refused: %v", answer.Refused)
			}
			r.eventually(func() string {
				row, _ := r.Table.Get(object.Key())
				if is := strings.Contains(string(row.Value), `"deep"`); is != c.comes {
					return fmt.Sprintf("the object has the status: %t", is)
				}
				return ""
			})
			for request, body := range map[string]string{
				"GET " + opens: "", "GET " + opens + "/" + object.Name: "", "GET " + reports: "",
				"PATCH " + opens + "/" + object.Name: `{"metadata":{"annotations":{"a":"b"}}}`,
			} {
				code, answer := admin.send(request, body, contentType, "application/merge-patch+json")
				var value any
				if err := json.Unmarshal([]byte(answer), &value); code != http.StatusOK || err != nil {
					t.Errorf("%s: %d %v %.200s", request, code, err, answer)
				}
			}
		})
	}
}

// keep writes a report and the object that it is about as a hub would have that limits the depth of neither.
func (r *running) keep(t *testing.T, o key.Object, report *wire.Report) {
	t.Helper()
	row, _ := r.Table.Get(o.Key())
	value, err := sjson.SetRaw(string(row.Value), "status", string(report.Status))
	if err == nil {
		value, err = sjson.Set(value, "metadata.managedFields.-1", map[string]any{
			"manager": placement.StatusManager, "operation": "Update", "apiVersion": "example.org/v1", "time": "2026-01-01T00:00:00Z",
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:status": map[string]any{}}, "subresource": "status",
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	kept := key.Report{Location: "a", Origin: key.Placed, Object: o}.Key()
	if _, err := r.Log.Write(t.Context(), []etcd.Op{{Key: kept, Value: wire.PackReport(text)}}); err != nil {
		t.Fatal(err)
	}
	rev, err := r.Log.Write(t.Context(), []etcd.Op{{Key: o.Key(), Value: []byte(value)}})
	if err == nil {
		err = r.Table.WaitFor(limit.Context(t, "the table shows the object"), rev)
	}
	if err != nil {
		t.Fatal(err)
	}
}
