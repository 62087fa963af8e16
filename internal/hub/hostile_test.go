package hub_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/seeds"
)

// raw sends a request whose target is not touched by a client, and returns the answer. A stream is
// read until it has been quiet for a while.
func (c client) raw(method, target string, header ...string) (int, string) {
	c.r.t.Helper()
	var code int
	var body string
	if err := tries(func() error {
		if code, body = c.rawOnce(method, target, header...); isLate(code, []byte(body)) {
			return &protocol.RefusedError{Call: target, Code: code, Body: []byte(body)}
		}
		return nil
	}); err != nil {
		c.r.t.Fatalf("%s %s: %v", method, target, err)
	}
	return code, body
}

// rawOnce is raw for one attempt.
func (c client) rawOnce(method, target string, header ...string) (int, string) {
	c.r.t.Helper()
	u, err := url.Parse(c.r.URL)
	if err != nil {
		c.r.t.Fatal(err)
	}
	config := c.Transport.(persistent).RoundTripper.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", u.Host, config)
	if err != nil {
		c.r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n", method, target, u.Host)
	for i := 0; i < len(header); i += 2 {
		request += header[i] + ": " + header[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		c.r.t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		c.r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.r.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body) // of a stream, what came until the hub ends it
	return resp.StatusCode, string(body)
}

const treasure = "crown-jewels"

// hostile is a hub with a tenant's space a, another's space b with a treasure, and nobody's none.
func hostile(t *testing.T) *running {
	t.Helper()
	r := start(t, t.TempDir())
	admin := r.as("admin", "system:masters")
	for _, s := range []key.Space{"a", "b"} {
		r.addSpace(s)
		for _, name := range []string{"x", "y"} {
			for _, kind := range []string{"Secret", "ConfigMap"} {
				object := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"%s-%s","annotations":{"of":"%s-%s-%s"}}}`, kind, s, name, treasure, s, name)
				if code, body := admin.send("POST /spaces/"+string(s)+"/api/v1/namespaces/default/"+strings.ToLower(kind)+"s", object); code != http.StatusCreated {
					t.Fatalf("%d %s", code, body)
				}
			}
		}
	}
	crd := widgetDefinition()
	crd.SetName("gizmos.b.example")
	crd.Object["spec"].(map[string]any)["group"] = "b.example"
	crd.Object["spec"].(map[string]any)["names"] = map[string]any{"plural": "gizmos", "kind": "Gizmo"}
	r.create("b", crdsGVR, crd)
	r.addLocation("edge", nil)
	return r
}

// TestForeignSpaces: a tenant reaches nothing of another space, by no way to write a
// path, and can't tell one that there is from one that there is not.
func TestForeignSpaces(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	jane := r.as("jane")
	for _, target := range []string{
		"/spaces/b/api/v1/secrets", "/spaces/b/api/v1/namespaces/default/secrets/b-x", "/spaces/b", "/spaces/b/", "/spaces/b/api", "/spaces/b/version", "/spaces/b/healthz",
		"/spaces/b/openapi/v3", "/spaces/b/apis/b.example/v1/gizmos", "/spaces/b/apis/orrery.dev/v1alpha1/locations", "/spaces/b/metrics",
		"/spaces/a/../b/api/v1/secrets", "/spaces/a/%2e%2e/b/api/v1/secrets", "/spaces/a%2F..%2Fb/api/v1/secrets", "/spaces/a%2f../b/api/v1/secrets",
		"/spaces//b/api/v1/secrets", "//spaces/b/api/v1/secrets", "/./spaces/b/api/v1/secrets", "/spaces/./b/api/v1/secrets", "/spaces/%62/api/v1/secrets",
		"/Spaces/b/api/v1/secrets", "/spaces/B/api/v1/secrets", "/spaces/b%00/api/v1/secrets", "/spaces/b;a/api/v1/secrets", "/spaces/a,b/api/v1/secrets",
		"/spaces/*/api/v1/secrets", "/spaces/%2a/api/v1/secrets", "/spaces/*/version", "/spaces/root/apis/orrery.dev/v1alpha1/spaces", "/spaces/root/version",
		"/ask/v1/spaces/b/status", "/ask/v1/spaces/*/status", "/views/locations/edge/api/v1/secrets", "/views/locations/none/api/v1/secrets",
		"/agent/v1/locations/edge/desired", "/metrics", "/metrics/", "//metrics", "/admin/v1/backup", "/spaces/a/../../metrics", "/spaces", "/spaces/", "/", "/version", "*",
	} {
		code, body := jane.raw("GET", target)
		if code != http.StatusForbidden && code != http.StatusBadRequest || strings.Contains(body, treasure) {
			t.Errorf("GET %s: %d %.200s", target, code, body)
		}
		if strings.Contains(target, "/spaces/b/") {
			other, text := jane.raw("GET", strings.Replace(target, "/spaces/b/", "/spaces/none/", 1))
			if other != code || strings.ReplaceAll(text, "/spaces/none/", "/spaces/b/") != body {
				t.Errorf("GET %s reveals whether the space exists: %d %s, %d %s", target, code, body, other, text)
			}
		}
		if path, ok := strings.CutPrefix(target, "/spaces/b/"); ok { // nor do the views of what is reported of it
			for _, location := range []string{"edge", "none", "*"} {
				reports := "/views/reports/spaces/b/locations/" + location + "/" + path
				code, body := jane.raw("GET", reports)
				other, text := jane.raw("GET", strings.Replace(reports, "/spaces/b/", "/spaces/none/", 1))
				if code != http.StatusForbidden || other != code || text != body {
					t.Errorf("GET %s: %d %s, and where there is none: %d %s", reports, code, body, other, text)
				}
			}
		}
	}
	for _, target := range []string{ // in their own space, the response is that it does not exist
		"/spaces/a/api/v1/../../../b/api/v1/secrets", "/spaces/a/api/v1/namespaces/../../../../b/api/v1/secrets", "/spaces/a/api/v1/namespaces/%2e%2e%2fb/secrets",
		"/spaces/a/api/v1/namespaces/..%2f..%2fb%2fcore%2fsecrets%2fdefault/secrets/b-x", "/spaces/a/api/v1/namespaces/default/secrets/..%2f..%2fb-x",
		"/spaces/a/apis/b.example/v1/gizmos", "/spaces/a/apis/b.example", "/spaces/a//api/v1/secrets/b-x", "/spaces/a/api/v1/namespaces/default/secrets/b-x",
		"/views/reports/spaces/a/locations/edge/api/v1/../../../../../b/locations/edge/api/v1/secrets", "/views/reports/spaces/a/locations/edge/api/v1/namespaces/..%2f..%2fb/secrets",
		"/views/reports/spaces/a/locations/edge/apis/b.example/v1/gizmos", "/views/reports/spaces/a/locations/none/api/v1/secrets", "/views/reports/spaces/a/locations/..%2f..%2fb/api/v1/secrets",
		"/views/reports/spaces/a%2f..%2fb/locations/edge/api/v1/secrets", "/views/reports/spaces/%2a/locations/edge/api/v1/secrets", "/views/reports/spaces/a/locations",
		"/spaces/a/apis/orrery.dev/v1alpha1/spaces", "/spaces/a/apis/orrery.dev/v1alpha1/spaces/b", "/ask/v1/spaces/a/../b/status", "/ask/v1/spaces/a/why?object=../b/core/secrets/default/b-x",
	} {
		if code, body := jane.raw("GET", target); code < 400 || strings.Contains(body, treasure) || strings.Contains(body, `"Gizmo"`) {
			t.Errorf("GET %s: %d %.200s", target, code, body)
		}
	}
	for _, target := range []string{"/spaces/a/apis", "/spaces/a/openapi/v2", "/spaces/a/openapi/v3", "/spaces/a/apis/orrery.dev/v1alpha1", "/spaces/a/api/v1/secrets"} {
		if code, body := jane.raw("GET", target); code != http.StatusOK || strings.Contains(body, "b.example") || strings.Contains(body, treasure+"-b") {
			t.Errorf("GET %s: %d shows another space", target, code)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "BREW"} {
		for _, target := range []string{"/spaces/b/api/v1/namespaces/default/secrets/b-x", "/spaces/b/api/v1/namespaces/default/secrets", "/spaces/b/version", "/views/locations/edge/api/v1/namespaces/default/secrets/x"} {
			code, body := jane.raw(method, target)
			other, text := jane.raw(method, strings.Replace(target, "/b/", "/none/", 1))
			if code < 400 || code != other || body != text {
				t.Errorf("%s %s: %d %s, and where there is none: %d %s", method, target, code, body, other, text)
			}
		}
	}
	for _, header := range [][]string{
		{"Impersonate-User", "admin"}, {"impersonate-user", "admin", "impersonate-group", "system:masters"}, {"Impersonate-Group", "system:masters"},
		{"Impersonate-User", "jane", "Impersonate-Group", "orrery:space:b:admin"}, {"Impersonate-User", "system:serviceaccount:default:default"},
		{"Impersonate-User", "", "Impersonate-Uid", "1"}, {"X-Remote-User", "admin", "X-Remote-Group", "system:masters"}, {"Authorization", "Bearer x"},
		{"X-Original-Url", "/spaces/a/version"}, {"X-HTTP-Method-Override", "GET"},
	} {
		if code, body := jane.raw("GET", "/spaces/b/api/v1/secrets", header...); code < 400 || strings.Contains(body, treasure) {
			t.Errorf("with %q: %d %.200s", header, code, body)
		}
	}
}

// TestNarrowRights: a right allows nothing beyond its verb and resource.
func TestNarrowRights(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	rule := func(name, verbs, resources, more string) client {
		r.grant("a", name, fmt.Sprintf(`{"subjects":[{"kind":"User","name":%q}],"rules":[{"apiGroups":["*"],"resources":[%s],"verbs":[%s]%s}]}`, name, resources, verbs, more))
		return r.as(name)
	}
	r.grant("a", "view", `{"subjects":[{"kind":"User","name":"view"}],"roles":[{"name":"view"}]}`)
	view := r.as("view")
	for _, target := range []string{
		"/api/v1/secrets", "/api/v1/secrets/", "/api/v1//secrets", "/api/v1/Secrets", "/api/v1/secrets?watch=1", "/api/v1/watch/secrets", "/api/v1/watch/namespaces/default/secrets/a-x",
		"/api/v1/proxy/namespaces/default/secrets/a-x", "/api/v1/namespaces/default/secrets/a-x/status", "/api/v1/namespaces/default/secrets%2Fa-x",
		"/api/v1/namespaces/default/configmaps/../secrets/a-x", "/apis//v1/secrets", "/apis/core/v1/secrets", "/api/v1beta1/secrets", "/api/v1/namespaces/default/secrets/a-x?fieldSelector=metadata.name=a-x",
		"/api/v1/namespaces/default/pods/../../secrets", "/api/v1/secrets?resource=pods", "/apis/orrery.dev/v1alpha1/grants", "/apis/orrery.dev/v1alpha1/grants/view",
	} {
		if code, body := view.raw("GET", "/spaces/a"+target); code < 400 || strings.Contains(body, treasure) || strings.Contains(body, `"subjects"`) {
			t.Errorf("view: GET %s: %d %.200s", target, code, body)
		}
	}

	one := rule("one", `"get","list","watch"`, `"secrets"`, `,"resourceNames":["a-x"]`)
	for _, query := range []string{
		"", "?fieldSelector=metadata.name=a-y", "?fieldSelector=metadata.name!=a-x", "?fieldSelector=metadata.name=a-x&fieldSelector=metadata.name=a-y",
		"?fieldSelector=&fieldSelector=metadata.name=a-x", "?fieldSelector=metadata.name=a-x&timeoutSeconds=z", "?fieldSelector=metadata.name%3da-x%2cmetadata.name!%3da-x",
		"?fieldSelector=metadata.name=a-x", "?fieldSelector=metadata.name=a-x&watch=1&timeoutSeconds=1", "?fieldSelector=metadata.name=a-x&limit=1&continue=x",
		"?fieldSelector=metadata.name=a-x&fieldSelector=", "?labelSelector=metadata.name=a-x",
	} {
		for _, path := range []string{"/spaces/a/api/v1/secrets", "/spaces/a/api/v1/namespaces/default/secrets"} {
			if code, body := one.raw("GET", path+query); strings.Contains(body, treasure+"-a-y") {
				t.Errorf("by the right to one object: GET %s%s: %d %.300s", path, query, code, body)
			}
		}
	}
	if _, body := one.raw("GET", "/spaces/a/api/v1/namespaces/default/secrets?fieldSelector=metadata.name=a-x"); !strings.Contains(body, treasure+"-a-x") {
		t.Errorf("the one object is not listed: %s", body)
	}

	list := rule("list", `"list"`, `"secrets"`, "")
	for _, query := range []string{"?watch=1", "?watch=true", "?watch=TRUE", "?watch=yes", "?watch", "?watch=false&watch=true", "?watch=0&watch=1", "?watch=true&watch=false", "?watch=1&resourceVersion=x",
		"?watch=1&timeoutSeconds=x", "?watch=1;", "?Watch=1", "?watch=1&limit=x"} {
		if code, body := list.raw("GET", "/spaces/a/api/v1/secrets"+query+"&timeoutSeconds=1"); strings.Contains(body, `"ADDED"`) {
			t.Errorf("by the right to list: %s: %d %.100s", query, code, body)
		}
	}
	if code, body := list.raw("GET", "/spaces/a/api/v1/namespaces/default/secrets/a-x"); code != http.StatusForbidden {
		t.Errorf("by the right to list: get: %d %.100s", code, body)
	}

	const fresh = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"fresh"}}`
	const lease = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"fresh"}}`
	patch, update := rule("patch", `"get","patch"`, `"*"`, ""), rule("update", `"get","update"`, `"*"`, "")
	apply := func(c client) (int, string) {
		return c.send("PATCH /spaces/a/api/v1/namespaces/default/configmaps/fresh?fieldManager=x", fresh, contentType, applyYAML)
	}
	put := func(c client) (int, string) {
		return c.send("PUT /spaces/a/apis/coordination.k8s.io/v1/namespaces/default/leases/fresh", lease)
	}
	for what, do := range map[string]func() (int, string){
		"an apply that creates":  func() (int, string) { return apply(patch) },
		"an update that creates": func() (int, string) { return put(update) },
		"an apply by update":     func() (int, string) { return apply(update) },
		"a deletion of all": func() (int, string) {
			return rule("delete", `"delete"`, `"*"`, "").send("DELETE /spaces/a/api/v1/namespaces/default/configmaps", "")
		},
		"one by deletecollection": func() (int, string) {
			return rule("all", `"deletecollection"`, `"*"`, "").send("DELETE /spaces/a/api/v1/namespaces/default/configmaps/a-x", "")
		},
		"scale by the object": func() (int, string) {
			return rule("object", `"*"`, `"deployments"`, "").send("GET /spaces/a/apis/apps/v1/namespaces/default/deployments/x/scale", "")
		},
		"the object by scale": func() (int, string) {
			return rule("scale", `"*"`, `"deployments/scale"`, "").send("GET /spaces/a/apis/apps/v1/namespaces/default/deployments/x", "")
		},
		"finalize by update": func() (int, string) {
			return rule("ns", `"*"`, `"namespaces"`, "").send("PUT /spaces/a/api/v1/namespaces/default/finalize", "{}")
		},
		"a token by locations": func() (int, string) {
			return rule("loc", `"*"`, `"locations"`, "").send("POST "+orreryOf(key.Root, "locations/edge/token"), "{}")
		},
		"Namespaces by what is in them": func() (int, string) {
			return rule("in", `"*"`, `"*"`, `,"namespaces":["m1"]`).send("DELETE /spaces/a/api/v1/namespaces/default", "")
		},
	} {
		if code, body := do(); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	both := rule("both", `"get","patch","update","create"`, `"*"`, "")
	for what, do := range map[string]func(client) (int, string){"apply": apply, "put": put} {
		if code, body := do(both); code != http.StatusCreated {
			t.Errorf("%s with the right to create: %d %s", what, code, body)
		}
	}
}

// TestQuestionsAreNarrow: the answers about a space contain only what the reader may list and get.
func TestQuestionsAreNarrow(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.addLocation("home", map[string]string{"where": "x"})
	for _, kind := range []string{"Secret", "ConfigMap"} {
		for _, name := range []string{"one", "two"} {
			r.create("a", schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"}, object("v1", kind, "default", name, map[string]string{"what": "x"}, nil))
		}
	}
	r.addPlacement("a", "p", "x", "x", nil)
	r.create("a", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "c", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"names": []any{"one"}}},
		"rules": []any{map[string]any{"path": "$.data.told", "value": "c2hvd24="}},
	}}))
	rights := map[string]string{
		"view":  `"roles":[{"name":"view"}]`,
		"edit":  `"roles":[{"name":"edit"}]`,
		"one":   `"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["one"],"verbs":["get"]}]`,
		"maps":  `"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"],"namespaces":["default"]}]`,
		"other": `"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"],"namespaces":["other"]}]`,
	}
	for name, what := range rights {
		r.grant("a", name, `{"subjects":[{"kind":"User","name":"`+name+`"}],`+what+`}`)
	}
	r.eventually(func() string {
		if _, body := r.as("admin", "system:masters").send("GET /ask/v1/spaces/a/status", ""); strings.Count(body, `"object"`) != 4 {
			return body
		}
		return ""
	})
	const secret, configMap = "core/secrets/default/one", "core/configmaps/default/one"
	for _, c := range []struct {
		who, question string
		code          int
		shows, hides  []string
	}{
		{"view", "status", 200, []string{configMap, `"name":"p"`}, []string{"secrets"}},
		{"edit", "status", 200, []string{configMap, secret, `"name":"p"`}, nil},
		{"one", "status", 200, nil, []string{"core/", `"name":"p"`}},
		{"maps", "status", 200, []string{configMap, "default/two"}, []string{"secrets", `"name":"p"`}},
		{"other", "status", 200, nil, []string{"core/", `"name":"p"`}},
		{"one", "status?object=" + configMap, 200, []string{configMap}, []string{"two", `"name":"p"`}},
		{"one", "status?object=core/configmaps/default/two", 403, nil, nil},
		{"one", "status?object=core/configmaps/default/none", 403, nil, nil},
		{"view", "status?object=" + secret, 403, nil, nil},
		{"view", "status?object=core/secrets/default/none", 403, nil, nil},
		{"view", "status?object=core/configmaps/default/none", 404, nil, nil},
		{"maps", "status?placement=p", 403, nil, nil},
		{"maps", "status?placement=none", 403, nil, nil},
		{"view", "status?placement=p", 200, []string{configMap, `"name":"p"`}, []string{"secrets"}},
		{"view", "why?location=home&object=" + configMap, 200, []string{`"name":"p"`}, nil},
		{"view", "why?location=home&object=" + configMap, 200, []string{`"customizer":"c","rule":0`, `"at":"$.data.told","after":"c2hvd24="`}, nil},
		{"edit", "why?location=home&object=" + secret, 200, []string{`"at":"$.data.told","after":"c2hvd24="`}, nil},
		{"one", "why?location=home&object=" + configMap, 200, nil, []string{"customizer", "c2hvd24="}},
		{"view", "why?location=home&object=" + secret, 403, nil, []string{"c2hvd24="}},
		{"view", "why?location=home&object=core/secrets/default/none", 403, nil, nil},
		{"one", "why?location=home&object=" + configMap, 200, []string{`"placed":true`}, []string{`"name":"p"`}},
		{"maps", "why?location=home&object=" + configMap, 403, nil, nil},
		{"view", "render?object=" + configMap, 200, []string{`"assigned":["home"]`}, nil},
		{"view", "render?object=" + secret, 403, nil, nil},
		{"view", "render?object=core/secrets/default/none", 403, nil, nil},
		{"view", "render?location=none&object=" + configMap, 404, nil, nil},
		{"one", "render?object=core/configmaps/default/two", 403, nil, nil},
		{"maps", "render?object=" + configMap, 403, nil, nil},
		{"maps", "waiting", 200, nil, nil},
	} {
		code, body := r.as(c.who).send("GET /ask/v1/spaces/a/"+c.question, "")
		if code != c.code {
			t.Errorf("%s of %s: %d %s", c.question, c.who, code, body)
		}
		for _, text := range c.shows {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not show %s to %s: %s", c.question, text, c.who, body)
			}
		}
		for _, text := range c.hides {
			if strings.Contains(body, text) {
				t.Errorf("%s shows %s to %s: %s", c.question, text, c.who, body)
			}
		}
	}

	// Only users that may write rules get the renderings of other objects.
	for who, want := range map[string]int{"view": http.StatusForbidden, "edit": http.StatusOK} {
		code, body := r.as(who).send("POST /ask/v1/spaces/a/render?location=home&object="+configMap,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}`)
		if code != want {
			t.Errorf("%s has an object rendered: %d %s", who, code, body)
		}
	}

	// Nor does anybody learn how many objects are left at locations that they may not list.
	path := "a/" + secret
	row := r.row("o/" + path)
	r.join("home").reports(wire.ReportLine{Key: path, Report: &wire.Report{UID: row.Meta.UID, State: wire.Applied}})
	if code, body := r.as("admin", "system:masters").send("DELETE /spaces/a/apis/orrery.dev/v1alpha1/placements/p", ""); code != http.StatusOK {
		t.Fatalf("delete the placement: %d %s", code, body)
	}
	const leaving = `"leaving":1`
	r.eventually(func() string {
		if _, body := r.as("admin", "system:masters").send("GET /ask/v1/spaces/a/status", ""); !strings.Contains(body, leaving) {
			return body
		}
		return ""
	})
	for who, allowed := range map[string]bool{"edit": true, "view": false, "maps": false, "one": false} {
		if _, body := r.as(who).send("GET /ask/v1/spaces/a/status", ""); strings.Contains(body, leaving) != allowed {
			t.Errorf("%s receives pending removals: %s", who, body)
		}
	}
}

// TestPoliciesTellNoSecrets: readers of Placements, and of Locations in root, see failures there, but no
// names of Secrets. Answers to queries name only objects that the reader may list.
func TestPoliciesTellNoSecrets(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.addLocation("home", map[string]string{"where": "x"})
	for name, what := range seeds.Ordered(map[string]string{"matched": "x", "missed": "y"}) {
		for _, kind := range []string{"Secret", "ConfigMap"} {
			o := object("v1", kind, "default", strings.ToLower(kind)+"-"+name, map[string]string{"what": what, "app.kubernetes.io/managed-by": "Helm"}, nil)
			o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "default"})
			r.create("a", schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"}, o)
		}
	}
	r.addPlacement("a", "p", "x", "x", nil)
	for name, what := range seeds.Ordered(map[string]string{
		"view": `"roles":[{"name":"view"}]`, "edit": `"roles":[{"name":"edit"}]`,
		"placements": `"rules":[{"apiGroups":["orrery.dev"],"resources":["placements"],"verbs":["get","list"]}]`,
	}) {
		r.grant("a", name, `{"subjects":[{"kind":"User","name":"`+name+`"}],`+what+`}`)
	}
	r.grant(key.Root, "ops", `{"subjects":[{"kind":"User","name":"ops"}],"roles":[{"name":"view"}]}`)
	agent := r.join("home")
	for _, path := range []string{"a/core/secrets/default/secret-matched", "a/core/configmaps/default/configmap-matched"} {
		row := r.row("o/" + path)
		agent.reports(wire.ReportLine{Key: path, Report: &wire.Report{UID: row.Meta.UID, State: wire.Failed, Reason: "Forbidden", Message: path + " is forbidden"}})
	}
	agent.tell(wire.AgentStatus{Prune: &wire.PruneStatus{Pending: 2, Digest: "d", Objects: []string{"a/core/secrets/default/secret-matched", "a/core/configmaps/default/configmap-matched"}}})
	for _, c := range []struct {
		who, request string
		shows, hides []string
	}{
		{"view", "/spaces/a/apis/orrery.dev/v1alpha1/placements/p", []string{`"object":"core/secrets"`, `"failed":2`, "configmap-matched is forbidden", "configmap-missed and 1 more"}, []string{"secret-"}},
		{"view", "/ask/v1/spaces/a/status", []string{"configmap-matched is forbidden", "configmap-missed and 1 more"}, []string{"secret-"}},
		{"edit", "/ask/v1/spaces/a/status", []string{"secret-matched is forbidden"}, nil},
		{"placements", "/ask/v1/spaces/a/status", []string{`"failed":2`, "matches 2 of the 4 objects"}, []string{"secret", "configmap-"}},
		{"ops", "/spaces/root/apis/orrery.dev/v1alpha1/locations/home", []string{`"a/core/secrets"`, "configmap-matched"}, []string{"secret-"}},
	} {
		var last string
		r.eventually(func() string {
			_, last = r.as(c.who).send("GET "+c.request, "")
			for _, text := range c.shows {
				if !strings.Contains(last, text) {
					return fmt.Sprintf("%s does not show %s to %s: %s", c.request, text, c.who, last)
				}
			}
			return ""
		})
		for _, text := range c.hides {
			if strings.Contains(last, text) {
				t.Errorf("%s shows %s to %s: %s", c.request, text, c.who, last)
			}
		}
	}
}
