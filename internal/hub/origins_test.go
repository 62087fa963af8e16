package hub_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// moving is what of an answer is another each time.
var moving = regexp.MustCompile(`"(resourceVersion|revision|time|heartbeat|lastHeartbeatTime)":\s*"?[^",}]*"?`)

// readings returns everything that clients read about placed objects: counts, conditions and returned
// statuses, their locations and the reasons, pending removals, the views of the locations, and Summaries.
func (c client) readings() map[string]string {
	c.r.t.Helper()
	all := map[string]string{}
	for _, path := range []string{
		route.Question("s").Path(route.Status), route.Question("s").Path(route.Status) + "?state=Removing", route.Question("s").Path(route.Waiting),
		route.Question("s").Path(route.Why) + "?object=core/configmaps/default/one", route.Question("s").Path(route.Why) + "?object=apps/deployments/default/web",
		string(route.Spaces) + "s/api/v1/configmaps", string(route.Spaces) + "s/apis/apps/v1/deployments", orreryOf("s", "placements"), orreryOf("s", "summaries"),
		orreryOf(key.Root, "locations"), orreryOf(key.Root, "spaces"), route.View("a").Path("api/v1/configmaps"), route.View("b").Path("apis/apps/v1/deployments"),
	} {
		code, body := c.send("GET "+path, "")
		all[path] = moving.ReplaceAllString(fmt.Sprint(code, " ", body), "")
	}
	return all
}

// TestReadersOfReports checks that no reader of reports confuses placed objects with upsynced or dependent
// objects, even with the same names. Responses about placed objects do not change when reports of the others
// are added, changed and removed. The removal of an object does not wait for those reports.
func TestReadersOfReports(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir())
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"where": "x"})
	}
	kinds := []any{map[string]any{"resources": []any{"configmaps"}}, map[string]any{"apiGroup": "apps", "resources": []any{"deployments"}}}
	r.addPlacement("s", "p", "x", "app", map[string]any{"associated": kinds, "returnStatus": "Rollup"})
	r.patchObject("s", placementsGVR, "p", `{"spec":{"waitForRemoval":true}}`)
	r.upsyncs("s", `{"resources":["configmaps"],"namespaces":["other"]}`)
	label := map[string]string{"what": "app"}
	for _, name := range []string{"one", "two"} {
		r.addConfigMap(name, label, "1")
	}
	r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "web", label, map[string]any{"spec": map[string]any{
		"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}},
	}}))
	r.summarize("placed", `{"match":[{"resources":["configmaps"]},{"apiGroup":"apps","resources":["deployments"]}],"select":[{"name":"location","expression":"location.name"},{"name":"state","expression":"sync.state"}]}`)
	paths := map[string]string{"one": "s/core/configmaps/default/one", "two": "s/core/configmaps/default/two", "web": "s/apps/deployments/default/web"}
	for _, l := range []key.Location{"a", "b"} {
		a := r.join(l)
		for _, path := range paths {
			frames := a.fetch(wire.Fetch{Key: path})
			if len(frames) == 0 || frames[0].Put == nil {
				t.Fatalf("%s is sent as %+v", path, frames)
			}
			report := wire.Report{
				UID: r.row("o/" + path).Meta.UID, Generation: 1, Digest: frames[0].Put.Digest, State: wire.Applied, Health: wire.Healthy, Since: "2026-01-02T03:04:05Z",
			}
			if path == paths["web"] {
				report.Status = json.RawMessage(`{"observedGeneration":1,"replicas":2,"readyReplicas":2,"updatedReplicas":2,"availableReplicas":2}`)
			}
			r.writeReport(l, key.Placed, path, report)
		}
	}
	reader := r.as("admin", masters)
	var before map[string]string
	r.eventually(func() string { // until all have followed
		now := reader.readings()
		for path, report := range now {
			if report != before[path] {
				before = now
				return path + " says " + report
			}
		}
		for path, last := range map[string]string{
			orreryOf("s", "summaries"): `"counted":6`, orreryOf("s", "placements"): `"applied":6`, string(route.Spaces) + "s/apis/apps/v1/deployments": `"readyReplicas":2`,
		} {
			if !strings.Contains(now[path], last) {
				return path + " says " + now[path]
			}
		}
		return ""
	})
	r.idle() // what nothing waits for is written by then
	before = reader.readings()
	same := func(what string) {
		t.Helper()
		r.throughout(time.Second, func() string {
			for path, report := range reader.readings() {
				if report != before[path] {
					return fmt.Sprintf("%s: %s says\n%s\nand has said\n%s", what, path, report, before[path])
				}
			}
			return ""
		})
	}
	same("without any")
	// The hub would refuse most of these: no other value in the log counts as a report of a placed object.
	odd := func(path string, state wire.State) wire.Report {
		return wire.Report{
			UID: r.row("o/" + path).Meta.UID, Generation: 9, State: state, Reason: "Odd", Message: "odd", Health: wire.Degraded, Since: "2027-01-02T03:04:05Z",
			Owner: "core/configmaps/default/two", Completed: "Succeeded",
			Status: json.RawMessage(`{"replicas":9,"odd":true}`), Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"status":{"replicas":9}}`),
		}
	}
	for _, state := range []wire.State{wire.Present, wire.Failed, wire.Removing, wire.Removed, wire.Held} {
		for _, path := range paths {
			r.writeReport("a", key.Owned, path, odd(path, state))
		}
		for _, name := range []string{"one", "new"} {
			report := odd(paths["one"], state)
			report.Owner = ""
			r.writeReport("b", key.Upsynced, "s/core/configmaps/other/"+name, report)
		}
		same("as " + string(state))
	}
	r.forgets("a", key.Owned, paths["web"])
	same("without one")
	// A deleted object is removed when the locations have reported the removal of the placed object, independent
	// of dependent objects.
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	uid := r.row("o/" + paths["one"]).Meta.UID
	for _, l := range []key.Location{"a", "b"} {
		r.writeReport(l, key.Owned, paths["one"], odd(paths["one"], wire.Removed))
	}
	r.throughout(time.Second, func() string {
		if row, _ := r.Table.Get("o/" + paths["one"]); row == nil {
			return "it is deleted before any location has reported its removal"
		}
		return ""
	})
	for _, l := range []key.Location{"a", "b"} {
		r.writeReport(l, key.Placed, paths["one"], wire.Report{UID: uid, State: wire.Removed})
	}
	r.eventually(func() string {
		if row, _ := r.Table.Get("o/" + paths["one"]); row != nil {
			return "its removal waits for what is owned"
		}
		return ""
	})
}
