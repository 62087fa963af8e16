package hub_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// fromNewer is a value that a newer version of the hub has stored. No codec of this version
// writes a number or an order of fields like this one.
const fromNewer = `{"z":1e2,"a":["x",1.0]}`

// newer gives a stored object fields that this version does not know, at each level that the
// hub may write anew, and takes its status away.
func (r *running) newer(k string) {
	r.t.Helper()
	value := bytes.Clone(r.row(k).Value)
	paths := []string{"fromNewer", "metadata.fromNewer"}
	if gjson.GetBytes(value, "spec").IsObject() {
		paths = append(paths, "spec.fromNewer")
	}
	var err error
	for _, path := range paths {
		if value, err = sjson.SetRawBytes(value, path, []byte(fromNewer)); err != nil {
			r.t.Fatal(err)
		}
	}
	if value, err = sjson.DeleteBytes(value, "status"); err != nil {
		r.t.Fatal(err)
	}
	r.writes(etcd.Op{Key: k, Value: value})
}

// keepsNewer waits until a stored object is as wanted, and fails if it has lost what a newer
// version had stored in it.
func (r *running) keepsNewer(k, why string, wanted func(gjson.Result) bool) {
	r.t.Helper()
	r.eventually(func() string {
		row, _ := r.Table.Get(k)
		if row == nil || !wanted(gjson.ParseBytes(row.Value)) {
			return k + ": not yet " + why
		}
		want := 2
		if gjson.GetBytes(row.Value, "spec").IsObject() {
			want = 3
		}
		if got := strings.Count(string(row.Value), `"fromNewer":`+fromNewer); got != want {
			r.t.Fatalf("%s, %s: %d of %d fields of a newer version are left: %s", k, why, got, want, row.Value)
		}
		return ""
	})
}

func hasStatus(o gjson.Result) bool { return o.Get("status").IsObject() }
func isMarked(o gjson.Result) bool  { return o.Get("metadata.deletionTimestamp").Exists() }

// TestNewerFieldsSurvive: whatever the hub writes by itself into an object, what a newer
// version has stored in it stays as it is.
func TestNewerFieldsSurvive(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.create("p", exportViewsGVR, fleetView("v", "label", "class"))
	r.addPlacement("s", "q", "x", "web", map[string]any{"returnStatus": "Singleton"})
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"names": []any{"none"}}}, "rules": []any{map[string]any{"path": "$.data.x", "release": true}},
	}}))
	r.create("s", summariesGVR, object("orrery.dev/v1alpha1", "Summary", "", "n", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"apiGroup": "apps"}}, "combine": []any{map[string]any{"name": "n", "type": "COUNT"}},
	}}))
	in := func(s key.Space, gvr schema.GroupVersionResource, namespace, name string) string {
		return key.Object{Space: s, Identity: key.Identity{Resource: key.NewResource(gvr.Group, gvr.Resource), Namespace: namespace, Name: name}}.Key()
	}
	for _, k := range []string{
		in(key.Root, spacesGVR, "", "s"), in(key.Root, locationsGVR, "", "a"), in("s", placementsGVR, "", "q"), in("s", customizersGVR, "", "z"),
		in("s", summariesGVR, "", "n"), in("p", exportsGVR, "", "fleet"), in("p", exportViewsGVR, "", "v"), in("c", bindingsGVR, "", "fleet"),
		in("p", crdsGVR, "", "clusters.fleet.example.org"),
	} {
		r.keepsNewerStatus(k)
	}
	t.Run("returned", func(t *testing.T) { r.returnsIntoNewer(t, in("s", deploymentsGVR, "default", "web")) })
	t.Run("deleted", func(t *testing.T) { r.deletesNewer(t, in) })
}

// keepsNewerStatus has a controller write the status of an object of a newer version.
func (r *running) keepsNewerStatus(k string) {
	r.t.Helper()
	r.eventually(func() string {
		if row, _ := r.Table.Get(k); row == nil || !hasStatus(gjson.ParseBytes(row.Value)) {
			return k + " has no status"
		}
		return ""
	})
	r.newer(k)
	r.keepsNewer(k, "written a status", hasStatus)
}

// returnsIntoNewer has a status come to an object of a newer version, a client write another,
// and it go again.
func (r *running) returnsIntoNewer(t *testing.T, k string) {
	made := r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "web", map[string]string{"what": "web"}, map[string]any{"spec": map[string]any{"replicas": 1}}))
	a := r.join("a")
	reports := func(status string) {
		a.reports(wire.ReportLine{Key: strings.TrimPrefix(k, key.Objects.Prefix()), Report: &wire.Report{UID: string(made.GetUID()), State: wire.Applied, Status: json.RawMessage(status)}})
	}
	reports(`{"replicas":1}`)
	replicas := func(n int64) func(gjson.Result) bool {
		return func(o gjson.Result) bool { return o.Get("status.replicas").Int() == n }
	}
	r.eventually(func() string {
		if row, _ := r.Table.Get(k); !replicas(1)(gjson.ParseBytes(row.Value)) {
			return "no status has come back"
		}
		return ""
	})
	r.newer(k)
	r.keepsNewer(k, "given the status that came back", replicas(1))
	reports(`{"replicas":2}`)
	r.keepsNewer(k, "given another status that came back", replicas(2))
	r.patchObject("s", placementsGVR, "q", `{"spec":{"downsync":[{"returnStatus":"None","labelSelectors":[{"matchLabels":{"what":"web"}}]}]}}`)
	r.keepsNewer(k, "cleared", replicas(0))
	deployments := r.space("s").Resource(deploymentsGVR).Namespace("default")
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"status":{"replicas":7}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	r.keepsNewer(k, "given a status by a client", replicas(7))
}

// deletesNewer has objects of a newer version deleted that finalizers keep, alone and with
// what owns them.
func (r *running) deletesNewer(t *testing.T, in func(s key.Space, gvr schema.GroupVersionResource, namespace, name string) string) {
	held := func(s key.Space, gvr schema.GroupVersionResource, apiVersion, kind, namespace, name string) string {
		o := object(apiVersion, kind, namespace, name, nil, nil)
		o.SetFinalizers([]string{"example.org/held"})
		r.create(s, gvr, o)
		k := in(s, gvr, namespace, name)
		r.newer(k)
		return k
	}
	r.create("s", namespacesGVR, object("v1", "Namespace", "", "n", nil, nil))
	alone := held("s", configMapsGVR, "v1", "ConfigMap", "default", "alone")
	within := held("s", configMapsGVR, "v1", "ConfigMap", "n", "within")
	bound := held("c", clustersGVR, "fleet.example.org/v1", "Cluster", "default", "held")
	defined := held("p", clustersGVR, "fleet.example.org/v1", "Cluster", "default", "held")
	remains := func(condition string) func(gjson.Result) bool {
		return func(o gjson.Result) bool {
			return strings.Contains(o.Get(`status.conditions.#(type=="`+condition+`").message`).String(), "finalizers")
		}
	}
	for _, owner := range []struct {
		s       key.Space
		gvr     schema.GroupVersionResource
		name    string
		content string
		explain func(gjson.Result) bool
	}{
		{"s", namespacesGVR, "n", within, remains("NamespaceFinalizersRemaining")},
		{"c", bindingsGVR, "fleet", bound, remains(v1alpha1.ConditionReady)},
		{"p", crdsGVR, "clusters.fleet.example.org", defined, remains("Terminating")},
	} {
		k := in(owner.s, owner.gvr, "", owner.name)
		r.newer(k)
		if owner.gvr != namespacesGVR { // a binding whose status is yet to be written owns nothing
			r.keepsNewer(k, "written a status", hasStatus)
		}
		if err := r.space(owner.s).Resource(owner.gvr).Delete(t.Context(), owner.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.keepsNewer(owner.content, "marked with its owner", isMarked)
		r.keepsNewer(k, "explained", owner.explain)
	}
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "alone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.keepsNewer(alone, "marked", isMarked)
}

// newerHub is a hub of a later version as the log has it, which knows more of Placements.
const newerHub = `{"url":"https://newer.example.org:6443","version":"v99.0","schema":1000,"kinds":{"placements.orrery.dev":1000}}`

// TestNewerHub: while a hub with a newer schema is on the log, an older one is elected for
// nothing and refuses to write the kinds of which it knows less, with the next step; it goes on
// with all else, and stands again when the newer one is gone.
func TestNewerHub(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addPlacement("s", "q", "x", "web", nil)
	r.elects(r)
	r.writes(etcd.Op{Key: key.Hub("NEWER"), Value: []byte(newerHub)})
	r.eventually(func() string {
		if all := r.writers(); len(all) > 0 {
			return "elected beside a newer hub"
		}
		return ""
	})
	admin := r.as("admin", "system:masters")
	const placement = `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"other"},"spec":{"locations":[{"names":["a"]}],"downsync":[{"names":["x"]}]}}`
	for _, request := range []struct{ what, body string }{
		{"POST /spaces/s/apis/orrery.dev/v1alpha1/placements", placement},
		{"PUT /spaces/s/apis/orrery.dev/v1alpha1/placements/q", strings.Replace(placement, "other", "q", 1)},
		{"DELETE /spaces/s/apis/orrery.dev/v1alpha1/placements/q", ""},
		{"DELETE /spaces/s/apis/orrery.dev/v1alpha1/placements", ""},
		{"PUT /spaces/s/apis/orrery.dev/v1alpha1/placements/q/status", placement},
	} {
		code, body := admin.send(request.what, request.body)
		if code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", request.what, code, body)
		}
		for _, text := range []string{"placements.orrery.dev", "https://newer.example.org:6443", "v99.0", "upgrade this hub"} {
			if !strings.Contains(body, text) {
				t.Errorf("%s: does not name %q: %s", request.what, text, body)
			}
		}
	}
	if code, body := admin.send("GET /spaces/s/apis/orrery.dev/v1alpha1/placements/q", ""); code != http.StatusOK {
		t.Errorf("a read: %d %s", code, body)
	}
	r.addConfigMap("one", nil, "1")
	r.writes(etcd.Op{Key: key.Hub("NEWER")})
	r.elects(r)
	if code, body := admin.send("POST /spaces/s/apis/orrery.dev/v1alpha1/placements", placement); code != http.StatusCreated {
		t.Errorf("without the newer hub: %d %s", code, body)
	}
}
