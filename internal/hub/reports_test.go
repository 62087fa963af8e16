package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// writeReport writes a report of a location to the log.
func (r *running) writeReport(l key.Location, origin key.Origin, path string, report wire.Report) {
	r.t.Helper()
	o, err := key.ParsePath(path)
	if err != nil {
		r.t.Fatal(err)
	}
	value, err := json.Marshal(report)
	if err != nil {
		r.t.Fatal(err)
	}
	r.writes(etcd.Op{Key: key.Report{Location: l, Origin: origin, Object: o}.Key(), Value: value})
}

// forgets removes what a location reports.
func (r *running) forgets(l key.Location, origin key.Origin, path string) {
	r.t.Helper()
	o, err := key.ParsePath(path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.writes(etcd.Op{Key: key.Report{Location: l, Origin: origin, Object: o}.Key()})
}

func (r *running) writes(op etcd.Op) {
	r.t.Helper()
	var rev int64
	err := tries(func() (err error) { rev, err = r.Log.Write(r.t.Context(), []etcd.Op{op}); return err })
	if err == nil {
		err = r.Table.WaitFor(limit.Context(r.t, "the table shows a revision"), rev)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) reported(s key.Space, l key.Location) dynamic.Interface {
	r.t.Helper()
	d, err := dynamic.NewForConfig(r.config(route.Reported(s, l).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// upsyncedObject is the report of an object as it is in a cluster.
func upsyncedObject(apiVersion, kind, name, more string) wire.Report {
	return wire.Report{State: wire.Present, Health: wire.Healthy, Object: json.RawMessage(fmt.Sprintf(
		`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q,"uid":"there","resourceVersion":"77","labels":{"app":"x","orrery.dev/location":"theirs"}}%s}`, apiVersion, kind, name, "default", more))}
}

var policyReportsGVR = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}

// reporting returns a hub with two spaces and with locations that report placed, upsynced and dependent objects,
// also of a kind without a definition.
func reporting(t *testing.T) *running {
	t.Helper()
	r := start(t, t.TempDir())
	for _, s := range []key.Space{"s", "z"} {
		r.addSpace(s)
	}
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"where": "x"})
	}
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	r.asksForReports()
	uid := r.row("o/s/core/configmaps/default/one").Meta.UID
	a := r.join("a")
	digest := r.digestOf(a, "one")
	a.reports(wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: uid, Generation: 1, State: wire.Applied, Digest: digest, Health: wire.Healthy, Since: "2026-01-02T03:04:05Z"}})
	r.writeReport("b", key.Placed, "s/core/configmaps/default/one", wire.Report{UID: uid, State: wire.Failed, Reason: "Refused", Message: "no", Health: wire.Degraded, Status: json.RawMessage(`{"x":1}`)})
	r.writeReport("a", key.Upsynced, "s/wgpolicyk8s.io/policyreports/default/r", upsyncedObject("wgpolicyk8s.io/v1alpha2", "PolicyReport", "r", `,"summary":{"fail":2}`))
	r.writeReport("b", key.Upsynced, "s/wgpolicyk8s.io/policyreports/default/r", upsyncedObject("wgpolicyk8s.io/v1alpha2", "PolicyReport", "r", `,"summary":{"fail":3}`))
	r.writeReport("b", key.Upsynced, "z/wgpolicyk8s.io/policyreports/default/r", upsyncedObject("wgpolicyk8s.io/v1alpha2", "PolicyReport", "r", `,"summary":{"fail":3}`))
	owned := upsyncedObject("v1", "Pod", "web-1", `,"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}`)
	owned.Owner, owned.Health, owned.HealthNote = "apps/deployments/default/web", wire.Degraded, "no image"
	r.writeReport("b", key.Owned, "s/core/pods/default/web-1", owned)
	r.writeReport("a", key.Upsynced, "s/core/secrets/default/key", upsyncedObject("v1", "Secret", "key", `,"data":{"k":"`+treasure+`"}`))
	return r
}

// asksForReports has what the locations report asked for: else the hub removes it.
func (r *running) asksForReports() {
	r.t.Helper()
	const reports = `{"apiGroup":"wgpolicyk8s.io","resources":["policyreports"]}`
	r.upsyncs("s", reports+`,{"resources":["secrets"]}`)
	r.upsyncs("z", reports)
	r.associates()
}

// associates places the Deployment web of the space s where the label where is x, with the
// Pods that it owns there.
func (r *running) associates() {
	r.t.Helper()
	const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const places = `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"web"},"spec":{"locations":[{"selector":{"matchLabels":{"where":"x"}}}],"downsync":[{"apiGroup":"apps","resources":["deployments"],"associated":[{"resources":["pods"]}]}]}}`
	for path, body := range map[string]string{"apis/apps/v1/namespaces/default/deployments/web": web, "apis/orrery.dev/v1alpha1/placements/web": places} {
		if code, response := r.as("admin", "system:masters").send("PATCH "+route.Space("s").Path(path)+"?fieldManager=t&force=true", body, contentType, applyYAML); code >= 300 {
			r.t.Fatalf("%d %s", code, response)
		}
	}
}

func namesOf(t *testing.T, client dynamic.ResourceInterface, options metav1.ListOptions) (names []string) {
	t.Helper()
	list, err := client.List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range list.Items {
		names = append(names, strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"))
	}
	return names
}

// TestReportsView shows that what locations report is a Kubernetes API: what is in it, by
// which names, columns and selectors, and that discovery lists exactly that.
func TestReportsView(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := reporting(t)
	one := r.reported("s", "a")
	u, err := one.Resource(configMapsGVR).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l, a := u.GetLabels(), u.GetAnnotations(); l["orrery.dev/state"] != "Applied" || l["orrery.dev/health"] != "Healthy" || l["orrery.dev/location"] != "a" || l["what"] != "app" ||
		a["orrery.dev/space"] != "s" || a["orrery.dev/since"] == "" || a["orrery.dev/origin"] != "placed" || dig(u.Object, "data", "k") != "1" || u.GetManagedFields() != nil {
		t.Errorf("it is %s", text(u.Object))
	}
	u, err = one.Resource(policyReportsGVR).Namespace("default").Get(t.Context(), "r", metav1.GetOptions{})
	if err != nil || dig(u.Object, "summary", "fail") != int64(2) || u.GetUID() != "there" || u.GetResourceVersion() == "77" || u.GetLabels()["orrery.dev/location"] != "a" {
		t.Errorf("the upsynced object is %v, %v", u, err)
	}
	for _, c := range []struct {
		space    key.Space
		location key.Location
		gvr      schema.GroupVersionResource
		options  metav1.ListOptions
		want     []string
	}{
		{"s", "*", configMapsGVR, metav1.ListOptions{}, []string{"default/a.one", "default/b.one"}},
		{"*", "*", configMapsGVR, metav1.ListOptions{LabelSelector: "orrery.dev/health=Degraded"}, []string{"s--default/b.one"}},
		{"*", "b", policyReportsGVR, metav1.ListOptions{}, []string{"s--default/r", "z--default/r"}},
		{"*", "b", policyReportsGVR, metav1.ListOptions{FieldSelector: "metadata.namespace=z--default"}, []string{"z--default/r"}},
		{"s", "*", policyReportsGVR, metav1.ListOptions{FieldSelector: "metadata.name=b.r"}, []string{"default/b.r"}},
		{"s", "*", podsGVR, metav1.ListOptions{FieldSelector: "status.phase=Running"}, []string{"default/b.web-1"}},
		{"s", "*", podsGVR, metav1.ListOptions{FieldSelector: "status.phase=Pending"}, nil},
		{"z", "a", configMapsGVR, metav1.ListOptions{}, nil},
	} {
		if got := namesOf(t, r.reported(c.space, c.location).Resource(c.gvr), c.options); !slices.Equal(got, c.want) {
			t.Errorf("%s %s %s %+v: %q, want %q", c.space, c.location, c.gvr.Resource, c.options, got, c.want)
		}
	}
	r.listsExactly("s", "a", "configmaps", "policyreports.wgpolicyk8s.io", "secrets")
	r.listsExactly("s", "*", "configmaps", "pods", "policyreports.wgpolicyk8s.io", "secrets")
	r.listsExactly("z", "*", "policyreports.wgpolicyk8s.io")
	r.listsExactly("z", "a")

	admin := r.as("admin", masters)
	code, body := admin.send("GET "+route.Reported("s", "*").Path("api/v1/namespaces/default/pods"), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	var table metav1.Table
	if err := json.Unmarshal([]byte(body), &table); err != nil || code != http.StatusOK || len(table.Rows) != 1 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	cells := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		cells[c.Name] = table.Rows[0].Cells[i]
	}
	if cells["Name"] != "b.web-1" || cells["Status"] != "Running" || cells["Location"] != "b" || cells["State"] != "Present" || cells["Health"] != "Degraded" || cells["Fresh"] != "Live" || cells["Age"] == nil {
		t.Errorf("its row is %v", cells)
	}
	for _, path := range []string{"openapi/v3", "openapi/v2", "openapi/v3/apis/wgpolicyk8s.io/v1alpha2", "version", "healthz"} {
		if code, body := admin.send("GET "+route.Reported("s", "*").Path(path), ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for path, want := range map[string]int{
		route.Reported("none", "a").Path("api/v1/pods"): http.StatusNotFound, route.Reported("s", "none").Path("api/v1/pods"): http.StatusNotFound,
		route.Reported("s", "a").Path("apis/x.example/v1/nothings"): http.StatusNotFound, "/views/reports/spaces/s": http.StatusNotFound, "/views/reports/s/a/api": http.StatusNotFound,
		route.Reported("s", "a").Path("apis/authorization.k8s.io/v1/selfsubjectaccessreviews"): http.StatusNotFound,
	} {
		if code, body := admin.send("GET "+path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if code, body := admin.send(method+" "+route.Reported("s", "a").Path("api/v1/namespaces/default/configmaps/one"), "{}"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
	// A location that a space does not see is none, unless it has something of the space.
	r.patchLocation("a", `{"spec":{"admit":[{"spaces":{"names":["s"]}}]}}`)
	if code, body := admin.send("GET "+route.Reported("z", "a").Path("api/v1/pods"), ""); code != http.StatusNotFound {
		t.Errorf("where it is not admitted: %d %s", code, body)
	}
}

// listsExactly compares the resources that discovery lists, aggregated and not.
func (r *running) listsExactly(s key.Space, l key.Location, want ...string) {
	r.t.Helper()
	for _, legacy := range []bool{false, true} {
		d, err := discovery.NewDiscoveryClientForConfig(r.config(route.Reported(s, l).String()))
		if err != nil {
			r.t.Fatal(err)
		}
		d.UseLegacyDiscovery = legacy
		_, lists, err := d.ServerGroupsAndResources()
		if err != nil {
			r.t.Fatal(err)
		}
		var got []string
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, resource := range list.APIResources {
				if !strings.Contains(resource.Name, "/") {
					got = append(got, gv.WithResource(resource.Name).GroupResource().String())
				}
				if slices.Contains(resource.Verbs, "create") {
					r.t.Errorf("%s can be created", resource.Name)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			r.t.Errorf("%s at %s (legacy: %v): %q, want %q", s, l, legacy, got, want)
		}
	}
}

// TestReportsOfWhatLeaves shows that what a location is to remove is shown until it has, also
// when the source is gone; and that selectors follow.
func TestReportsOfWhatLeaves(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := reporting(t)
	all := r.reported("s", "*").Resource(configMapsGVR)
	list, err := all.List(t.Context(), metav1.ListOptions{LabelSelector: "orrery.dev/state=Applied"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	applied, err := all.Watch(t.Context(), metav1.ListOptions{LabelSelector: "orrery.dev/state=Applied", ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer applied.Stop()
	leaving, err := all.Watch(t.Context(), metav1.ListOptions{LabelSelector: "orrery.dev/state=Removing", ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer leaving.Stop()
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	nextEvent(t, applied, watch.Deleted, "a.one")
	gone := nextEvent(t, leaving, watch.Added, "a.one")
	if gone.GetKind() != "ConfigMap" || gone.GetAPIVersion() != "v1" || gone.Object["data"] != nil || gone.GetAnnotations()["orrery.dev/message"] == "" {
		t.Errorf("the removed object is %s", text(gone.Object))
	}
	nextEvent(t, leaving, watch.Added, "b.one")
	r.forgets("a", key.Placed, "s/core/configmaps/default/one")
	nextEvent(t, leaving, watch.Deleted, "a.one")
	r.writeReport("b", key.Placed, "s/core/configmaps/default/one", wire.Report{State: wire.Removed})
	nextEvent(t, leaving, watch.Deleted, "b.one")
	if got := namesOf(t, all, metav1.ListOptions{}); got != nil {
		t.Errorf("there is still %q", got)
	}
}

func nextEvent(t *testing.T, w watch.Interface, kind watch.EventType, name string) *unstructured.Unstructured {
	t.Helper()
	e := limit.Receive(t, w.ResultChan(), string(kind)+" "+name)
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type != kind || u.GetName() != name {
		t.Fatalf("got %s %s, want %s %s", e.Type, text(e.Object), kind, name)
	}
	return u
}

// TestReportsTakeRights checks the rights for the view of reports: the right to reports, by location, and the
// right to the kind, in the space. Access ends with either. Secrets need the right to get them there.
func TestReportsTakeRights(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := reporting(t)
	who := r.as("jane")
	const subject = `{"subjects":[{"kind":"User","name":"jane"}],`
	content := func(more string) string {
		return `{"apiGroups":["orrery.dev"],"resources":["reports/content"],"verbs":["get","list","watch"]` + more + `}`
	}
	expect := func(want int, root route.Root, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if code, body := who.send("GET "+root.Path(path), ""); code != want || code != http.StatusOK && strings.Contains(body, treasure) {
				t.Errorf("%s of %s: %d %.300s, want %d", path, root, code, body, want)
			}
		}
	}
	a, b, both := route.Reported("s", "a"), route.Reported("s", "b"), route.Reported("s", "*")
	r.grant("s", "jane", subject+`"roles":[{"name":"edit"}]}`)
	expect(http.StatusForbidden, a, "api/v1/configmaps", "api", "api/v1/secrets")
	r.grant("s", "jane", subject+`"roles":[{"name":"view"}],"rules":[`+content(`,"resourceNames":["a"]`)+`]}`)
	expect(http.StatusOK, a, "api/v1/configmaps", "api", "apis/wgpolicyk8s.io/v1alpha2/policyreports", "api/v1/namespaces/default/configmaps/one")
	expect(http.StatusForbidden, a, "api/v1/secrets", "api/v1/namespaces/default/secrets/key", "api/v1/secrets?watch=1")
	for _, root := range []route.Root{b, both, route.Reported("z", "a"), route.Reported("*", "a"), route.Reported("none", "a"), route.Reported("s", "none")} {
		expect(http.StatusForbidden, root, "api/v1/configmaps", "api")
	}
	r.grant("s", "jane", subject+`"rules":[`+content("")+`,{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["one"],"verbs":["get"]},{"apiGroups":[""],"resources":["pods"],"namespaces":["default"],"verbs":["list","watch"]}]}`)
	expect(http.StatusOK, both, "api", "api/v1/namespaces/default/configmaps/a.one", "api/v1/namespaces/default/pods")
	expect(http.StatusForbidden, both, "api/v1/configmaps", "api/v1/namespaces/default/configmaps/a.two", "api/v1/pods", "api/v1/namespaces/other/pods", "apis/wgpolicyk8s.io/v1alpha2/policyreports")
	r.grant("s", "jane", subject+`"roles":[{"name":"admin"}]}`)
	expect(http.StatusOK, both, "api/v1/secrets")

	for _, loses := range []string{
		`"roles":[{"name":"view"}]}`, // the reports
		`"rules":[` + content("") + `]}`,
	} {
		r.grant("s", "jane", subject+`"roles":[{"name":"admin"}]}`)
		resp := who.open(t.Context(), "GET "+both.Path("api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"), "")
		ended := make(chan error, 1)
		decoder := json.NewDecoder(resp.Body)
		var first map[string]any
		if err := decoder.Decode(&first); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				var e map[string]any
				if err := decoder.Decode(&e); err != nil {
					ended <- err
					return
				}
			}
		}()
		r.grant("s", "jane", subject+loses)
		<-ended // or the timeout of the client
		_ = resp.Body.Close()
		expect(http.StatusForbidden, both, "api/v1/pods")
	}
	r.grant("s", "jane", subject+`"roles":[{"name":"admin"}]}`)
	expect(http.StatusForbidden, route.Reported("*", "*"), "api/v1/pods", "api")
	r.grant(key.Root, "jane", subject+`"roles":[{"name":"admin"}],"spaces":{"selector":{}}}`)
	expect(http.StatusForbidden, route.Reported("*", "*"), "api/v1/pods", "api")
	r.grant(key.Root, "jane2", subject+`"roles":[{"name":"admin"}]}`)
	expect(http.StatusOK, route.Reported("*", "*"), "api/v1/pods", "api")

	// In all namespaces, a name has no space in front: it is not that of what is called so without.
	one := `"rules":[` + content("") + `,{"apiGroups":[""],"resources":["configmaps","namespaces"],"resourceNames":["one"],"verbs":["get","list","watch"]}]`
	r.grant("s", "jane", subject+one+`}`)
	r.grant(key.Root, "jane", subject+one+`,"spaces":{"selector":{}}}`)
	r.grant(key.Root, "jane2", subject+one+`}`)
	expect(http.StatusForbidden, route.Reported("*", "*"), "api/v1/configmaps?fieldSelector=metadata.name%3Da.s--one", "api/v1/configmaps")
	expect(http.StatusForbidden, route.Reported("*", "a"), "api/v1/configmaps?fieldSelector=metadata.name%3Ds--one")
	// What is in none is not to be had by a right in one.
	r.grant("s", "jane", subject+`"rules":[`+content("")+`,{"apiGroups":["*"],"resources":["*"],"namespaces":["default"],"verbs":["get","list","watch"]}]}`)
	expect(http.StatusNotFound, both, "apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles")
	expect(http.StatusForbidden, both, "apis/rbac.authorization.k8s.io/v1/clusterroles")
}

// TestKindsThatLocationsDisagreeOn checks that the reports of a location determine the name and scope of an
// undefined kind only for its own objects, not for those of other locations. Discovery returns the names that
// most locations report.
func TestKindsThatLocationsDisagreeOn(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := start(t, t.TempDir())
	r.addSpace("s")
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for _, l := range []key.Location{"a", "b", "c"} {
		r.addLocation(l, map[string]string{"where": "x"})
	}
	r.upsyncs("s", `{"apiGroup":"example.com","resources":["widgets"]}`)
	cluster := func(kind, name string) wire.Report {
		return wire.Report{State: wire.Present, Object: json.RawMessage(fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":%q,"uid":"u"}}`, kind, name))}
	}
	// The first by name lies.
	r.writeReport("a", key.Upsynced, "s/example.com/widgets/w", cluster("Gadget", "w"))
	r.writeReport("a", key.Upsynced, "s/example.com/widgets/default/w", upsyncedObject("example.com/v1", "Gadget", "w", ""))
	for _, l := range []key.Location{"b", "c"} {
		r.writeReport(l, key.Upsynced, "s/example.com/widgets/default/w", upsyncedObject("example.com/v1", "Widget", "w", ""))
	}
	all := r.reported("s", "*").Resource(gvr)
	list, err := all.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range list.Items {
		got = append(got, u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
	}
	if want := []string{"Gadget default/a.w", "Gadget /a.w", "Widget default/b.w", "Widget default/c.w"}; !slices.Equal(got, want) || list.GetKind() != "WidgetList" {
		t.Errorf("%s: %q, want %q", list.GetKind(), got, want)
	}
	for name, want := range map[string]string{"default/b.w": "Widget", "default/a.w": "Gadget", "/a.w": "Gadget"} {
		namespace, name, _ := strings.Cut(name, "/")
		u, err := all.Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || u.GetKind() != want {
			t.Errorf("%s/%s is %v, %v, want a %s", namespace, name, u, err, want)
		}
	}
	if got := namesOf(t, all.Namespace("default"), metav1.ListOptions{FieldSelector: "metadata.name=b.w"}); !slices.Equal(got, []string{"default/b.w"}) {
		t.Errorf("in the namespace are %q", got)
	}
	d, err := discovery.NewDiscoveryClientForConfig(r.config(route.Reported("s", "*").String()))
	if err != nil {
		t.Fatal(err)
	}
	served, err := d.ServerResourcesForGroupVersion("example.com/v1")
	if err != nil || len(served.APIResources) != 1 || served.APIResources[0].Kind != "Widget" || !served.APIResources[0].Namespaced {
		t.Errorf("discovery has %+v, %v", served, err)
	}
	w, err := all.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	r.writeReport("b", key.Upsynced, "s/example.com/widgets/default/v", upsyncedObject("example.com/v1", "Widget", "v", ""))
	if e := limit.Receive(t, w.ResultChan(), "an event"); e.Type != watch.Added || e.Object.(*unstructured.Unstructured).GetKind() != "Widget" {
		t.Errorf("a watch has %s %s", e.Type, text(e.Object))
	}
}
