package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestForBelow: policies that are meant for a lower hub have no effect here. A user that changes one so
// that it has effect here needs the rights for creating it. Spaces and Locations can't be meant for a
// lower hub, and CRDs have effect everywhere.
func TestForBelow(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	root, jane, weak := r.as("admin", masters), r.as("jane"), r.as("weak")
	const below, here = `{"metadata":{"labels":{"orrery.dev/for":"below"}}}`, `{"metadata":{"labels":{"orrery.dev/for":null}}}`
	r.grant("a", "weak", `{"subjects":[{"kind":"User","name":"weak"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["grants","placements"],"verbs":["get","create","update","patch"]}]}`)
	grants, placements := orreryOf("a", "grants"), orreryOf("a", "placements")
	for _, c := range []struct {
		what    string
		who     client
		request string
		body    string
		code    int
	}{
		{"a Grant for below", root, "POST " + grants, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"name":"strong","labels":{"orrery.dev/for":"below"}},"spec":{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}}`, http.StatusCreated},
		{"it gives nothing", jane, "GET /spaces/a/api/v1/configmaps", "", http.StatusForbidden},
		{"who does not hold it lets it act", weak, "PATCH " + grants + "/strong", here, http.StatusForbidden},
		{"it still gives nothing", jane, "GET /spaces/a/api/v1/configmaps", "", http.StatusForbidden},
		{"who holds it lets it act", root, "PATCH " + grants + "/strong", here, http.StatusOK},
		{"it gives", jane, "GET /spaces/a/api/v1/configmaps", "", http.StatusOK},
		{"it is for below again", root, "PATCH " + grants + "/strong", below, http.StatusOK},
		{"it gives nothing again", jane, "GET /spaces/a/api/v1/configmaps", "", http.StatusForbidden},
		{"a Placement for below", root, "POST " + placements, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p","labels":{"orrery.dev/for":"below"}},"spec":{"locations":[{"names":["edge"]}],"downsync":[{"resources":["secrets"]}]}}`, http.StatusCreated},
		{"who may not read what it matches lets it act", weak, "PATCH " + placements + "/p", here, http.StatusForbidden},
		{"a Space for below", root, "POST " + orreryOf(key.Root, "spaces"), `{"apiVersion":"orrery.dev/v1alpha1","kind":"Space","metadata":{"name":"c","labels":{"orrery.dev/for":"below"}}}`, http.StatusUnprocessableEntity},
		{"… later", root, "PATCH " + orreryOf(key.Root, "spaces/a"), below, http.StatusUnprocessableEntity},
		{"a Location for below", root, "PATCH " + orreryOf(key.Root, "locations/edge"), below, http.StatusUnprocessableEntity},
		{"a CRD for below", root, "POST /spaces/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.Replace(definitionOf(t, "opens", `{"type":"object"}`), `"metadata":{`, `"metadata":{"labels":{"orrery.dev/for":"below"},`, 1), http.StatusCreated},
		{"acts", root, "GET /spaces/a/apis/example.org/v1/opens", "", http.StatusOK},
	} {
		var header []string
		if strings.HasPrefix(c.request, "PATCH") {
			header = []string{contentType, mergePatch}
		}
		if code, body := c.who.send(c.request, c.body, header...); code != c.code {
			t.Errorf("%s: %d %s, want %d", c.what, code, body, c.code)
		}
	}
}

// TestAssignmentsTakeGet: a user that assigns an existing object to locations, where other users can read
// it, must be allowed to get it. This holds for each verb and subresource.
func TestAssignmentsTakeGet(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	root := r.as("admin", masters)
	const pods, maps = "/spaces/a/api/v1/namespaces/default/pods", "/spaces/a/api/v1/namespaces/default/configmaps"
	if code, body := root.send("POST "+pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	rule := `{"apiGroups":[""],"resources":["configmaps","pods","pods/status"],"verbs":["create","update","patch"%s]}`
	r.grant("a", "blind", `{"subjects":[{"kind":"User","name":"blind"}],"rules":[`+fmt.Sprintf(rule, "")+`]}`)
	r.grant("a", "reader", `{"subjects":[{"kind":"User","name":"reader"}],"rules":[`+fmt.Sprintf(rule, `,"get"`)+`]}`)
	const assign, other = `{"metadata":{"annotations":{"orrery.dev/assigned-locations":"[\"edge\"]"}}}`, `{"metadata":{"annotations":{"x":"y"}}}`
	for _, c := range []struct {
		who, request, body, kind string
		code                     int
	}{
		{"blind", "PATCH " + maps + "/a-x", other, mergePatch, http.StatusOK},
		{"blind", "PATCH " + maps + "/a-x", assign, mergePatch, http.StatusForbidden},
		{"blind", "PATCH " + maps + "/a-x", assign, "application/strategic-merge-patch+json", http.StatusForbidden},
		{"blind", "PATCH " + maps + "/a-x?fieldManager=x", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a-x","annotations":{"orrery.dev/assigned-locations":"[]"}}}`, applyYAML, http.StatusForbidden},
		{"blind", "PUT " + maps + "/a-x", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a-x","annotations":{"orrery.dev/assigned-locations":"[]"}}}`, "application/json", http.StatusForbidden},
		{"blind", "PATCH " + pods + "/p/status", assign, mergePatch, http.StatusForbidden},
		{"blind", "POST " + maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"own","annotations":{"orrery.dev/assigned-locations":"[]"}}}`, "application/json", http.StatusCreated},
		{"reader", "PATCH " + maps + "/a-x", assign, mergePatch, http.StatusOK},
		{"blind", "PATCH " + maps + "/a-x", other, mergePatch, http.StatusOK},
		{"reader", "PATCH " + pods + "/p/status", assign, mergePatch, http.StatusOK},
	} {
		if code, body := r.as(c.who).send(c.request, c.body, contentType, c.kind); code != c.code {
			t.Errorf("%s %s %s: %d %s, want %d", c.who, c.request, c.kind, code, body, c.code)
		}
	}
}
