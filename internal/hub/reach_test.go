package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// owned is an object with its owner, and the properties that determine its possible writers.
type owned struct {
	name     string
	space    key.Space
	resource string
	class    string // of a cluster, or of the one that owns a ConfigMap
	bound    bool   // the space has bound the kind, or accepted a claim of the object
	stored   *unstructured.Unstructured
}

// reached is the root of a request: an export view, of one space or of all, or a space itself.
type reached struct {
	name string
	view *key.ExportView
	wide bool
}

// may reports whether a provider can write an object: through an export view, bound objects and accepted
// claims of its space, in a slice only those with its value; in the space itself, nothing.
func (root reached) may(o owned) bool {
	return root.view != nil && o.bound && (!root.view.View || root.view.Value == o.class)
}

// path is that of an object's collection, and of all there are.
func (root reached) path(o owned) (path, all, namespace string) {
	base, namespace := route.Space(o.space), "default"
	switch {
	case root.wide:
		base, namespace = route.ExportViewRoot(*root.view, key.AllSpaces), string(o.space)+"--default"
	case root.view != nil:
		base = route.ExportViewRoot(*root.view, o.space)
	}
	api := "/apis/fleet.example.org/v1"
	if o.resource == "configmaps" {
		api = "/api/v1"
	}
	return base.String() + api + "/namespaces/" + namespace + "/" + o.resource, base.String() + api + "/" + o.resource, namespace
}

func roots() (all []reached) {
	all = []reached{{name: "space"}}
	for _, f := range []key.ExportView{exportViewOf("", ""), exportViewOf("classes", "gold"), exportViewOf("classes", "silver"), exportViewOf("classes", "")} {
		all = append(all, reached{f.String() + " *", &f, true}, reached{f.String() + " one", &f, false})
	}
	return all
}

// objectsOfAll makes an object of each kind of owner.
func (r *running) objectsOfAll() (all []owned) {
	r.t.Helper()
	add := func(o owned, u *unstructured.Unstructured) *unstructured.Unstructured {
		gvr := clustersGVR
		if o.resource == "configmaps" {
			gvr = configMapsGVR
		}
		u.SetLabels(labelled(u.GetLabels(), o.name))
		if o.resource == "clusters" {
			u.Object["spec"].(map[string]any)["replicas"] = int64(1)
		}
		o.stored = r.create(o.space, gvr, u)
		all = append(all, o)
		return o.stored
	}
	classless := func(name string) *unstructured.Unstructured {
		u := cluster(name, "")
		unstructured.RemoveNestedField(u.Object, "spec", "class")
		return u
	}
	gold := add(owned{name: "gold", space: "c", resource: "clusters", class: "gold", bound: true}, cluster("gold", "gold"))
	add(owned{name: "silver", space: "c", resource: "clusters", class: "silver", bound: true}, cluster("silver", "silver"))
	add(owned{name: "rest", space: "c", resource: "clusters", bound: true}, classless("rest"))
	add(owned{name: "not-accepting", space: "d", resource: "clusters", class: "gold", bound: true}, cluster("not-accepting", "gold"))
	add(owned{name: "unbound", space: "u", resource: "clusters", class: "gold"}, cluster("unbound", "gold"))
	configMap := func(name string, labels map[string]string) *unstructured.Unstructured {
		u := object("v1", "ConfigMap", "default", name, labels, nil)
		if name == "claimed" {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "fleet.example.org/v1", Kind: "Cluster", Name: "gold", UID: gold.GetUID()}})
		}
		return u
	}
	use := map[string]string{"use": "fleet"}
	add(owned{name: "claimed", space: "c", resource: "configmaps", class: "gold", bound: true}, configMap("claimed", use))
	add(owned{name: "claimed-rest", space: "c", resource: "configmaps", bound: true}, configMap("claimed-rest", use))
	add(owned{name: "unclaimed", space: "c", resource: "configmaps", class: "gold"}, configMap("unclaimed", nil))
	add(owned{name: "not-accepted", space: "d", resource: "configmaps", class: "gold"}, configMap("not-accepted", use))
	add(owned{name: "claimed-unbound", space: "u", resource: "configmaps", class: "gold"}, configMap("claimed-unbound", use))
	return all
}

func labelled(labels map[string]string, name string) map[string]string {
	all := map[string]string{"is": name}
	maps.Copy(all, labels)
	return all
}

// attempt is a request METHOD PATH, the right that it takes, and the code of its success.
type attempt struct {
	verb, request, kind, body string
	code                      int
	right                     string
}

// try sends an attempt. It reads the initial events of a watch.
func (c client) try(a attempt) (code int, body string) {
	c.r.t.Helper()
	if a.right != "watch" {
		return c.send(a.request, a.body, contentType, a.kind)
	}
	ctx, cancel := context.WithCancel(c.r.t.Context())
	defer cancel()
	resp := c.open(ctx, a.request, "")
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, upToInitial(c.r.t, resp.Body)
}

// upToInitial returns a streaming list up to its end, or the response if that is none.
func upToInitial(t testing.TB, body io.Reader) string {
	t.Helper()
	var text strings.Builder
	for decoder := json.NewDecoder(body); ; {
		var e json.RawMessage
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return text.String()
		} else if err != nil {
			t.Fatal(err)
		}
		text.Write(e)
		if strings.Contains(string(e), metav1.InitialEventsAnnotationKey) {
			return text.String()
		}
	}
}

// streamed asks for a streaming list.
const streamed = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"

// reads are all ways to read an object by way of a root.
func (root reached) reads(o owned) (all []attempt) {
	path, anywhere, _ := root.path(o)
	one, labelled := path+"/"+o.name, "?labelSelector=is="+o.name
	for _, r := range [][3]string{
		{"get", "get", one}, {"list", "list", path + labelled}, {"list in all namespaces", "list", anywhere + labelled}, {"watch", "watch", anywhere + labelled + "&" + streamed},
	} {
		all = append(all, attempt{r[0], "GET " + r[2], "application/json", "", http.StatusOK, r[1]})
	}
	if o.resource == "clusters" {
		all = append(all, attempt{"get status", "GET " + one + "/status", "application/json", "", http.StatusOK, "get"},
			attempt{"get scale", "GET " + one + "/scale", "application/json", "", http.StatusOK, "get"})
	}
	return all
}

// attempts are all ways to reach an object by way of a root. What may succeed is only tried.
func (root reached) attempts(t testing.TB, o owned) []attempt {
	return append(root.reads(o), root.writes(t, o)...)
}

// writes are all ways to write an object by way of a root.
func (root reached) writes(t testing.TB, o owned) (all []attempt) {
	path, _, namespace := root.path(o)
	u := o.stored.DeepCopy()
	u.SetNamespace(namespace)
	u.SetAnnotations(map[string]string{"changed": "yes"})
	update := u.DeepCopy()
	u.SetResourceVersion("")
	u.SetUID("")
	u.SetManagedFields(nil)
	u.SetCreationTimestamp(metav1.Time{})
	whole, changed := jsonOf(t, u), jsonOf(t, update)
	u.SetName("another")
	another := jsonOf(t, u)
	const merged = `{"metadata":{"annotations":{"changed":"yes"}}}`
	one := path + "/" + o.name
	all = []attempt{
		{"create", "POST " + path, "application/json", whole, http.StatusConflict, "create"},
		{"update", "PUT " + one, "application/json", changed, http.StatusOK, "update"},
		{"patch", "PATCH " + one, mergePatch, merged, http.StatusOK, "patch"},
		{"JSON patch", "PATCH " + one, jsonPatch, `[{"op":"add","path":"/metadata/annotations","value":{"changed":"yes"}}]`, http.StatusOK, "patch"},
		{"apply", "PATCH " + one + "?fieldManager=other&force=true", applyYAML, whole, http.StatusOK, "patch"},
		{"delete", "DELETE " + one + "?propagationPolicy=Background", "application/json", "", http.StatusOK, "delete"},
		{"deletecollection", "DELETE " + path + "?labelSelector=is=" + o.name, "application/json", "", http.StatusOK, "deletecollection"},
	}
	if o.resource == "clusters" {
		all = append(all, attempt{"patch status", "PATCH " + one + "/status", mergePatch, `{"status":{"phase":"changed"}}`, http.StatusOK, "patch"},
			attempt{"update status", "PUT " + one + "/status", "application/json", changed, http.StatusOK, "update"},
			attempt{"scale", "PATCH " + one + "/scale", mergePatch, `{"spec":{"replicas":7}}`, http.StatusOK, "patch"})
	}
	if root.may(o) || o.class != "" { // what has no value gets that of the slice
		all = append(all, attempt{"create another", "POST " + path, "application/json", another, http.StatusCreated, "create"})
	}
	for i := range all {
		if root.may(o) {
			sep := "?"
			if strings.Contains(all[i].request, "?") {
				sep = "&"
			}
			all[i].request += sep + "dryRun=All"
			if all[i].verb == "create" { // over one that is there: a dry run does not look
				all[i].request = strings.TrimSuffix(all[i].request, "?dryRun=All")
			}
		}
	}
	return all
}

// ofMany reports whether an attempt is about all objects that a selector matches.
func (a attempt) ofMany() bool {
	return slices.Contains([]string{"list", "watch", "deletecollection"}, a.right)
}

// ofAbsent is the same attempt on an object that is nowhere; false if it would make one.
func (a attempt) ofAbsent(o owned) (attempt, bool) {
	if a.ofMany() || a.right == "create" || a.verb == "apply" {
		return a, false
	}
	a.request = strings.Replace(a.request, "/"+o.resource+"/"+o.name, "/"+o.resource+"/absent", 1)
	a.body = strings.Replace(a.body, fmt.Sprintf(`"name":%q`, o.name), `"name":"absent"`, 1)
	return a, true
}

// isIndistinguishable checks that a refusal for an existing object is the same as for a missing one.
func (c client) isIndistinguishable(root reached, o owned, a attempt, code int, body string) {
	c.r.t.Helper()
	absent, ok := a.ofAbsent(o)
	if !ok {
		return
	}
	quoted := func(text, name string) string {
		return strings.NewReplacer(`\"`+name+`\"`, "NAME", strconv.Quote(name), "NAME").Replace(text)
	}
	if c2, response := c.try(absent); c2 != code || quoted(response, "absent") != quoted(body, o.name) {
		c.r.t.Errorf("%s: %s of %s reveals that it exists: %d %s, not %d %s", root.name, a.verb, o.name, code, body, c2, response)
	}
}

// wrong returns the error in the response to an attempt; empty if it is as wanted.
func (a attempt) wrong(root reached, o owned, code int, body string) string {
	named := fmt.Sprintf(`"name":%q`, o.name)
	switch may := root.may(o); {
	case may && code != a.code:
		return "refused"
	case may && a.ofMany() && !strings.Contains(body, named):
		return "left out"
	case !may && a.ofMany() && code == http.StatusOK:
		if strings.Contains(body, named) {
			return "reached"
		}
	case !may && a.right == "create" && code == http.StatusUnprocessableEntity: // it says itself that it belongs elsewhere
	case !may && code != http.StatusForbidden && code != http.StatusNotFound:
		return "not denied"
	}
	return ""
}

// TestProvidersReachTheirExportView: each kind of read or write of an object of each owner, by each root, works
// if the rule allows it. Otherwise it is denied, changes nothing, and does not reveal that the object exists.
func TestProvidersReachTheirExportView(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	controller := r.bearing(r.controller())
	objects := r.objectsOfAll()
	before := r.objectsStored()
	var tried, denied int
	for _, root := range roots() {
		for _, o := range objects {
			for _, a := range root.attempts(t, o) {
				tried++
				if !root.may(o) {
					denied++
				}
				code, body := controller.try(a)
				if wrong := a.wrong(root, o, code, body); wrong != "" {
					t.Errorf("%s: %s of %s: %s: %d %s", root.name, a.verb, o.name, wrong, code, body)
				}
				if !root.may(o) {
					controller.isIndistinguishable(root, o, a, code, body)
				}
			}
			if after := r.objectsStored(); after != before {
				t.Fatalf("%s: %s: the log has changed:\n%s\nwas\n%s", root.name, o.name, after, before)
			}
		}
	}
	t.Logf("%d attempts, %d to be denied", tried, denied)
}

// objectsStored are all stored clusters and ConfigMaps.
func (r *running) objectsStored() string {
	r.t.Helper()
	objects := readTruth(r.t, r).objects
	stored := map[string]any{}
	for k, v := range objects {
		if strings.Contains(k, "/clusters/") || strings.Contains(k, "/configmaps/") {
			stored[k] = v
		}
	}
	return jsonOf(r.t, stored)
}
