package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// TestBodiesAreReadInOnePlace: no code of the hub reads the body of a request but package requestbody, which has the limits.
func TestBodiesAreReadInOnePlace(t *testing.T) {
	wrap := []string{"auth/auth.go", "agentapi/limits.go"} // they put a reader around it, and read nothing
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			filepath.Dir(path) == "requestbody" || slices.Contains(wrap, filepath.ToSlash(path)) {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Body" {
				t.Errorf("%s: a body is used; read it with package requestbody", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deepBody is a body that is nested deeper than any limit, and counts its bytes that are read.
type deepBody struct {
	*strings.Reader
	size int
}

// deepLevels is more than encoding/json takes, and yamlLevels less than what the decoder of YAML refuses by itself. Code
// that reads bodies of so few bytes again for each level still ends soon.
const deepLevels, yamlLevels = 10_100, 9000

func newDeepBody(contentType string) *deepBody {
	levels := deepLevels
	if strings.HasSuffix(contentType, "yaml") {
		levels = yamlLevels
	}
	text := `{"x":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `,"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`
	return &deepBody{strings.NewReader(text), len(text)}
}

// isRead reports that so much was read that the body is known to be too deep.
func (b *deepBody) isRead() bool { return b.size-b.Len() > 2*requestbody.MaxDepth }

// Close implements io.Closer.
func (*deepBody) Close() error { return nil }

// sent is a request with a deep body.
type sent struct{ method, path, contentType string }

// TestDeepBodies sends a deep body to each path that package route has, and to each resource, with each verb and content
// type: a handler that reads it refuses it for its depth.
func TestDeepBodies(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addConfigMap("x", nil, "1")
	r.Arrivals.Expected = func(*http.Request, int64) int64 { return 0 } // else each body is read before its handler is known
	send := func(s sent) (w *httptest.ResponseRecorder, isRead bool) {
		ctx, cancel := context.WithCancel(limit.Context(t, "an answer"))
		defer cancel()
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: auth.AdminUser, Groups: []string{user.SystemPrivilegedGroup}})
		path, query, _ := strings.Cut(s.path, "?")
		body := newDeepBody(s.contentType)
		req := (&http.Request{
			Method: s.method, URL: &url.URL{Path: path, RawQuery: query}, Host: "hub", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{wire.Header: {wire.ProtocolVersion}, contentType: {s.contentType}}, Body: body, ContentLength: int64(body.size), RemoteAddr: "192.0.2.1:1",
		}).WithContext(ctx)
		w = httptest.NewRecorder()
		r.Admitted.ServeHTTP(w, req)
		return w, body.isRead()
	}
	read := map[string]int{}
	for _, s := range slices.Concat(requestsOfRoutes(t), r.requestsOfResources(send)) {
		w, isRead := send(s)
		if !isRead {
			continue
		}
		read[s.method]++
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "nested deeper than") {
			t.Errorf("%s %s (%s) is answered with %d %.200s", s.method, s.path, s.contentType, w.Code, w.Body)
		}
	}
	t.Logf("read bodies: %v", read)
	for _, path := range mustRead {
		if _, isRead := send(sent{http.MethodPost, path, "application/json"}); !isRead {
			t.Errorf("%s does not read its body", path)
		}
	}
	agent := r.join("a")
	for _, path := range []string{route.Enrol, route.Agent("a").Path(route.Renew)} { // which come before access is judged
		req, err := agent.now().New(t.Context(), http.MethodPost, "", newDeepBody(""))
		if err != nil {
			t.Fatal(err)
		}
		if req.URL, err = req.URL.Parse(r.URL + path); err != nil {
			t.Fatal(err)
		}
		resp, err := agent.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusBadRequest || !bytes.Contains(text, []byte("nested deeper than")) {
			t.Errorf("%s is answered with %s %.200s %v", path, resp.Status, text, err)
		}
	}
}

// renderPath is the path at which an object that is not stored is rendered.
var renderPath = route.Question("s").Path(route.Render) + "?object=core/configmaps/default/x"

// mustRead are some paths whose handlers read a body, so that the test does not pass without one.
var mustRead = []string{
	renderPath, route.Tokens, route.Agent("a").Path(route.Reports), route.Agent("a").Path(route.Walk), route.Agent("a").Path(route.AgentStatus),
	"/spaces/s/api/v1/namespaces/default/configmaps", "/spaces/s/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	"/spaces/root/apis/orrery.dev/v1alpha1/locations/a/token",
}

// requestsOfRoutes are requests to all that package route names in its constants: paths, and parts of paths below a root.
func requestsOfRoutes(t *testing.T) (all []sent) {
	t.Helper()
	files, err := filepath.Glob("../protocol/route/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	inspect := func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasPrefix(text, "/"):
			paths = append(paths, text, text+"/x", strings.TrimSuffix(text, "/")+"/s/api")
		default:
			paths = append(paths, route.Agent("a").Path(text), route.Question("s").Path(text))
		}
		return true
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, inspect)
	}
	if !slices.Contains(paths, route.Tokens) || !slices.Contains(paths, route.Question("s").Path(route.Render)) {
		t.Fatalf("the paths of package route are not found: %q", paths)
	}
	for _, path := range append(paths, renderPath) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			all = append(all, sent{method: method, path: path})
			if !strings.HasPrefix(path, string(route.Agents)) { // whose bodies have no type
				all = append(all, sent{method, path, "application/yaml"})
			}
		}
	}
	return all
}

// requestsOfResources are requests of all verbs and content types to all resources that are served in a space and in root.
func (r *running) requestsOfResources(send func(sent) (*httptest.ResponseRecorder, bool)) (all []sent) {
	r.t.Helper()
	document := func(path string, into any) {
		r.t.Helper()
		if w, _ := send(sent{method: http.MethodGet, path: path}); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), into) != nil {
			r.t.Fatalf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	var groups metav1.APIGroupList
	document("/spaces/root/apis", &groups)
	versions := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, "/apis/"+v.GroupVersion)
		}
	}
	for _, space := range []string{"s", "root"} {
		for _, version := range versions {
			var list metav1.APIResourceList
			document("/spaces/"+space+version, &list)
			for _, resource := range list.APIResources {
				name, sub, _ := strings.Cut(resource.Name, "/")
				collection := "/spaces/" + space + version
				if resource.Namespaced {
					collection += "/namespaces/default"
				}
				collection += "/" + name
				one := strings.TrimSuffix(collection+"/x/"+sub, "/")
				all = append(all, sent{http.MethodPost, one, "application/json"}, sent{http.MethodDelete, collection, "application/json"})
				for _, kind := range []string{"application/json", "application/yaml"} {
					all = append(all, sent{http.MethodPost, collection, kind}, sent{http.MethodPut, one, kind}, sent{http.MethodDelete, one, kind})
				}
				for _, kind := range []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", applyYAML} {
					all = append(all, sent{http.MethodPatch, one + "?fieldManager=x", kind})
				}
			}
		}
	}
	return all
}
