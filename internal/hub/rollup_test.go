package hub_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// rolled is a space with a Deployment of three replicas at two locations, without a policy about its status.
type rolled struct {
	*running
	receivers  map[key.Location]*receiver
	uid        string
	generation int64
}

const ready = `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"conditions":[` +
	`{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}`

func newRolled(t *testing.T) *rolled {
	t.Helper()
	r := &rolled{running: start(t, t.TempDir()), receivers: map[key.Location]*receiver{}}
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"where": "x"})
		r.receivers[l] = r.receiver(l)
	}
	r.addPlacement("s", "p", "x", "app", nil)
	pod := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "registry.example/web:1"}}},
	}
	made := r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "web", map[string]string{"what": "app"}, map[string]any{
		"spec": map[string]any{"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "template": pod},
	}))
	r.uid, r.generation = string(made.GetUID()), made.GetGeneration()
	rev, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.receivers {
		h.receives(rev, "web")
		if !h.put["web"].Policy.ReturnStatus {
			t.Fatalf("%s is not asked for the status", h.l)
		}
	}
	return r
}

// reports has a location report the Deployment.
func (r *rolled) reports(l key.Location, state wire.State, status string) {
	r.t.Helper()
	r.receivers[l].agent.reports(wire.ReportLine{Key: returnedObject, Report: &wire.Report{
		UID: r.uid, Generation: r.generation, Digest: r.receivers[l].put["web"].Digest, State: state, Status: json.RawMessage(status),
	}})
}

// shows waits until the status in the space has some values.
func (r *rolled) shows(want map[string]string) {
	r.t.Helper()
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + returnedObject)
		for field, value := range want {
			if got := gjson.GetBytes(row.Value, "status."+field).String(); got != value {
				return fmt.Sprintf("%s is %q, want %q: %s", field, got, value, gjson.GetBytes(row.Value, "status").Raw)
			}
		}
		return ""
	})
}

// TestRollupOfLocations shows that the status in the space says 3/3 while all locations do,
// and less otherwise; that it is cleared when no location is left; and that locations hear
// nothing of it.
func TestRollupOfLocations(t *testing.T) {
	t.Parallel()
	r := newRolled(t)
	all := map[string]string{"readyReplicas": "3", "availableReplicas": "3", "updatedReplicas": "3", "observedGeneration": "1", `conditions.#(type=="Available").status`: "True"}
	r.reports("a", wire.Applied, ready)
	r.shows(map[string]string{"readyReplicas": "", `conditions.#(type=="Available").status`: "Unknown"})
	r.reports("b", wire.Applied, ready)
	r.shows(all)
	r.reports("b", wire.Applied, strings.Replace(ready, `"readyReplicas":3`, `"readyReplicas":1`, 1))
	r.shows(map[string]string{"readyReplicas": "1", "availableReplicas": "3"})
	r.reports("b", wire.Failed, ready)
	r.shows(map[string]string{"readyReplicas": "", "unavailableReplicas": "3"})
	r.reports("b", wire.Applied, ready)
	r.shows(all)
	if row := r.row("o/" + returnedObject); gjson.GetBytes(row.Value, "metadata.generation").Int() != r.generation {
		t.Errorf("a returned status has changed the generation: %s", row.Value)
	}

	after := r.addConfigMap("after", map[string]string{"what": "app"}, "1")
	for _, h := range r.receivers {
		h.receives(after, "after")
	}
	r.relabel("a", "elsewhere")
	r.relabel("b", "elsewhere")
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + returnedObject)
		if strings.Contains(string(row.Value), "orrery-status") || gjson.GetBytes(row.Value, "status.replicas").Exists() {
			return string(row.Value)
		}
		return ""
	})
}

// TestStatusWrittenInTheSpace checks that a status that a user of the space writes belongs to that user. When no
// policy requests a status any more, the user's status remains, and the returned status, which would become
// outdated, is removed.
func TestStatusWrittenInTheSpace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, patch, stays string
		as                 types.PatchType
	}{
		{"Counters", `{"status":{"replicas":7,"readyReplicas":7}}`, `{"replicas":7,"readyReplicas":7}`, types.MergePatchType},
		{"Condition", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"status":{"conditions":[{"type":"Checked","status":"True","reason":"Ours"}]}}`,
			`{"conditions":[{"type":"Checked","status":"True","lastUpdateTime":null,"lastTransitionTime":null,"reason":"Ours"}]}`, types.ApplyPatchType},
		{"PartOfCondition", `{"status":{"conditions":[{"type":"Available","status":"False"}]}}`,
			`{"conditions":[{"type":"Available","status":"False","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"MinimumReplicasAvailable"}]}`, types.StrategicMergePatchType},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRolled(t)
			r.reports("a", wire.Applied, ready)
			r.reports("b", wire.Applied, ready)
			r.shows(map[string]string{"readyReplicas": "3"})
			written, err := r.space("s").Resource(deploymentsGVR).Namespace("default").Patch(t.Context(), "web", c.as, []byte(c.patch), metav1.PatchOptions{FieldManager: "theirs"}, "status")
			if err != nil {
				t.Fatal(err)
			}
			rev, err := strconv.ParseInt(written.GetResourceVersion(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range r.receivers {
				if h.receives(rev, "web"); h.put["web"].Policy.ReturnStatus {
					t.Errorf("%s is still asked for the status", h.l)
				}
			}
			r.reports("a", wire.Applied, strings.Replace(ready, `"readyReplicas":3`, `"readyReplicas":2`, 1))
			r.eventually(func() string {
				row, _ := r.Table.Get("o/" + returnedObject)
				if strings.Contains(string(row.Value), "orrery-status") || gjson.GetBytes(row.Value, "status").Raw != c.stays {
					return string(row.Value)
				}
				return ""
			})
		})
	}
}
