package hub_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

// secretOfOther is a text that only the space other has, which no request is about.
const secretOfOther = "zq7-of-the-other-space"

// attacked is a hub whose space s gets arbitrary requests, and whose space other must
// remain unseen and unchanged.
type attacked struct {
	*running
	other int64 // the last revision at which the space other was written
}

func attack(f *testing.F) *attacked {
	f.Helper()
	r := start(f, f.TempDir(), func(c *hub.Config) { c.Logger = slog.New(slog.DiscardHandler) })
	for _, s := range []key.Space{"s", "other"} {
		r.addSpace(s)
	}
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	r.create("other", configMapsGVR, object("v1", "ConfigMap", "default", "one", nil, map[string]any{"data": map[string]any{"k": secretOfOther}}))
	last := r.create("other", configMapsGVR, object("v1", "ConfigMap", "default", secretOfOther, nil, nil))
	rev, err := strconv.ParseInt(last.GetResourceVersion(), 10, 64)
	if err != nil {
		f.Fatal(err)
	}
	if err := r.Table.WaitFor(limit.Context(f, "the table shows a revision"), rev); err != nil { // it may lag behind what is answered
		f.Fatal(err)
	}
	r.idle() // nor does the hub itself write to the space later
	a := &attacked{running: r}
	a.other = a.lastWrite()
	return a
}

func (a *attacked) lastWrite() (rev int64) {
	a.Table.Snapshot().Ascend(key.SpacePrefix("other"), func(row *table.Row) bool {
		rev = max(rev, row.ModRev)
		return true
	})
	return rev
}

// send sends a request to the space s as an operator would, after authentication, and
// checks what must hold for every request.
func (a *attacked) send(t *testing.T, method, path, query, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: auth.AdminUser, Groups: []string{user.SystemPrivilegedGroup}})
	r := (&http.Request{
		Method: method, URL: &url.URL{Path: route.Space("s").String() + "/" + path, RawQuery: query}, Host: "hub",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, RemoteAddr: "192.0.2.1:1",
	}).WithContext(ctx)
	if body != "" {
		withBody := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Body, r.ContentLength = withBody.Body, withBody.ContentLength
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	if strings.Contains(path+query, "watch") {
		a.Admitted.ServeHTTP(&leaving{ResponseRecorder: w, leave: cancel}, r)
	} else {
		a.Admitted.ServeHTTP(w, r)
	}
	switch answer := w.Body.String(); {
	case strings.Contains(answer, secretOfOther) && !strings.Contains(path+query+body, secretOfOther):
		t.Errorf("%s %q %q shows the other space: %s", method, path, query, answer)
	// Kubernetes blames itself for what does not fit a schema, and so does a space.
	case w.Code >= http.StatusInternalServerError && w.Code != http.StatusGatewayTimeout && !isLate(w.Code, w.Body.Bytes()) && !strings.Contains(answer, "failed to create typed patch object"):
		t.Errorf("%s %q %q %q %q: %d %s", method, path, query, contentType, body, w.Code, answer)
	}
	if now := a.lastWrite(); now != a.other {
		t.Fatalf("%s %q %q changed the other space", method, path, query)
	}
	return w
}

// leaving is a client that leaves soon after the answer has begun: a watch ends with its client.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
	begun sync.Once
}

func (l *leaving) begins() {
	l.begun.Do(func() { time.AfterFunc(batchDelay, l.leave) })
}

// WriteHeader implements http.ResponseWriter.
func (l *leaving) WriteHeader(code int) {
	l.begins()
	l.ResponseRecorder.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (l *leaving) Write(b []byte) (int, error) {
	l.begins()
	return l.ResponseRecorder.Write(b)
}

// Flush implements http.Flusher.
func (l *leaving) Flush() {
	l.begins()
	l.ResponseRecorder.Flush()
}

var contentTypes = []string{
	"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
	"application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain",
}

// FuzzPaths asks for arbitrary paths by arbitrary methods.
func FuzzPaths(f *testing.F) {
	a := attack(f)
	for _, path := range []string{
		"", "api", "apis", "api/v1", "api/v1/configmaps", "api/v1/namespaces/default/configmaps/one", "api/v1/namespaces/default/configmaps/one/status",
		"api/v1/namespaces/../../other/api/v1/configmaps", "../other/api/v1/configmaps", "api/v1/namespaces/default/../../../../other/api/v1/configmaps/one",
		"/spaces/other/api/v1/configmaps", "api/v1/watch/namespaces/default/configmaps/one", "api/v1/proxy", "api/v1/watch", "api/v1/namespaces/default/configmaps/\x00", "api/v1/namespaces/%2e%2e/configmaps",
		"api/v1/namespaces//configmaps", "apis/apps/v1/namespaces/default/deployments/x/scale", "apis/a/b/c/d/e/f/g/h", "openapi/v2", "openapi/v3", "openapi/v3/apis/../x", "version", "api/v1/namespaces/default/finalize",
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apis/orrery.dev/v1alpha1/locations/x/token", "api/v1/namespaces/default/pods/p/log",
	} {
		for i, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
			f.Add(method, path, "", byte(i), `{"metadata":{"name":"x"}}`)
		}
	}
	for _, query := range []string{
		"limit=1", "limit=-1", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vLi4vb3RoZXIvIn0", "watch=1", "watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		"fieldSelector=metadata.namespace=../other", "labelSelector=%00", "resourceVersion=18446744073709551615", "timeoutSeconds=0", "fieldSelector=metadata.name%3Done", "pretty=1", "dryRun=All&fieldManager=%00", "a=%zz", ";", "resourceVersion=1&resourceVersionMatch=Exact",
	} {
		f.Add("GET", "api/v1/namespaces/default/configmaps", query, byte(0), "")
		f.Add("DELETE", "api/v1/namespaces/none/configmaps", query, byte(0), "{}")
	}
	f.Fuzz(func(t *testing.T, method, path, query string, contentType byte, body string) {
		a.send(t, method, path, query, contentTypes[int(contentType)%len(contentTypes)], body)
	})
}

// FuzzPatches patches objects of several kinds with arbitrary bytes.
func FuzzPatches(f *testing.F) {
	a := attack(f)
	targets := []string{"api/v1/namespaces/default/configmaps/one", "api/v1/namespaces/default/secrets/one", "apis/apps/v1/namespaces/default/deployments/one",
		"apis/apps/v1/namespaces/default/deployments/one/scale", "api/v1/namespaces/default/pods/one/status", "apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/one",
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org", "api/v1/namespaces/default"}
	bodies := []string{
		`{}`, `null`, `[]`, `5`, `"x"`, ``, `{`, "\x00", "\xff", `{"data":null}`, `{"metadata":null}`, `{"spec":null}`, `{"spec":{"replicas":-1}}`, `{"spec":{"replicas":1e99}}`, `{"kind":"X","apiVersion":"y/z/w"}`,
		`[{"op":"test","path":"/data","value":{}}]`, `[{"op":"remove","path":""}]`, `[{"op":"copy","from":"","path":"/a"}]`, `[{"op":"replace","path":"/metadata","value":null}]`, `[{"op":"add","path":"/metadata/managedFields/-","value":{}}]`,
		`{"$patch":"replace"}`, `{"$patch":"delete"}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[1]}}`, `{"spec":{"template":{"spec":{"containers":[{"$patch":"merge"}]}}}}`, `{"spec":{"$setElementOrder/x":[]}}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: one}\nspec: {template: {spec: {containers: [{name: a}, {name: a}]}}}\n", "? [x]\n: y\n", "&a [*a]", `{"metadata":{"managedFields":[{"manager":"x","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:x":{"k:{}":{}}}}]}}`,
		`{"metadata":{"name":"\u0000"}}`, `{"metadata":{"finalizers":[""]}}`, `{"metadata":{"ownerReferences":[{}]}}`, `{"metadata":{"creationTimestamp":"x"}}`, `{"metadata":{"labels":{"":""}}}`, `{"spec":{"names":{"plural":"x"},"versions":[{"name":"v1"}]}}`,
	}
	for i, body := range bodies {
		for j := range targets {
			f.Add(byte(j), byte(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, target, contentType byte, body string) {
		path := targets[int(target)%len(targets)]
		a.send(t, http.MethodPatch, path, "fieldManager=f&force=true", contentTypes[3+int(contentType)%4], body)
		if w := a.send(t, http.MethodGet, path, "", "", ""); w.Code == http.StatusOK && !json.Valid(w.Body.Bytes()) {
			t.Errorf("after a patch with %q there is %q", body, w.Body)
		}
	})
}

// FuzzNames creates objects of arbitrary names: what is accepted can be read
// where it was put, and nowhere else.
func FuzzNames(f *testing.F) {
	a := attack(f)
	for _, name := range []string{"x", "", ".", "..", "a/b", "../../other/core/configmaps/default/x", "a\x00", "A", "ä", "%2e%2e", "x%", strings.Repeat("a", 253), strings.Repeat("a", 300), "system:x", "a b", "\xff", "default", "-"} {
		f.Add(name, "default", "l", "v")
		f.Add("x", name, "l", "v")
		f.Add("x", "default", name, name)
	}
	f.Fuzz(func(t *testing.T, name, namespace, label, value string) {
		if !utf8.ValidString(name + namespace + label + value) {
			return // JSON can't say it
		}
		body, err := json.Marshal(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{
			"name": name, "namespace": namespace, "labels": map[string]string{label: value}}})
		if err != nil {
			t.Fatal(err)
		}
		roles := "apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/roles"
		if w := a.send(t, http.MethodPost, roles, "", contentTypes[0], string(body)); w.Code != http.StatusCreated {
			return
		}
		path := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("rbac.authorization.k8s.io", "roles"), Namespace: namespace, Name: name}}
		if err := a.WaitCommitted(limit.Context(t, "the table is current")); err != nil {
			t.Fatal(err)
		}
		row, _ := a.Table.Get(path.Key())
		if row == nil {
			t.Fatalf("%q in %q was created, and not at %q", name, namespace, path.Key())
		}
		if o, err := key.ParseObject(row.Key); err != nil || o != path {
			t.Errorf("%q is the key of %+v: %v", row.Key, o, err)
		}
		if w := a.send(t, http.MethodDelete, roles+"/"+name, "", "", ""); w.Code != http.StatusOK && !isLate(w.Code, w.Body.Bytes()) {
			t.Errorf("%q in %q can't be deleted: %d %s", name, namespace, w.Code, w.Body)
		}
	})
}
