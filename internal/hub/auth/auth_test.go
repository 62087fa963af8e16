package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// sender sends requests to a Guard.
type sender struct {
	user.Info
	t          *testing.T
	authorizer *Authorizer
}

// conditions returns the stream conditions of an authorized request.
func (s sender) conditions(method, target string) (all []table.Condition) {
	s.t.Helper()
	handler := s.guard().Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { all = ConditionsOf(r.Context()) }))
	WithRoot(filters.WithRequestInfo(handler, newResolver())).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, target, nil))
	return all
}

// send returns the status code of the response, and the user that the handler received.
func (s sender) send(method, path string, header ...string) (code int, as user.Info) {
	s.t.Helper()
	handler := s.guard().Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		as, _ = request.UserFrom(r.Context())
		for name := range r.Header {
			if name == "Authorization" || len(name) > 11 && name[:11] == "Impersonate" {
				s.t.Errorf("%s %s: header %s is let through", method, path, name)
			}
		}
	}))
	handler = WithRoot(filters.WithRequestInfo(handler, newResolver()))
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.Header.Set("Authorization", "Bearer x")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, as
}

// guard returns a Guard that authenticates all requests as this user.
func (s sender) guard() *Guard {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return &Guard{
		config: Config{Codecs: serializer.NewCodecFactory(scheme), Logger: slog.New(slog.DiscardHandler), Now: time.Now},
		authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			if s.Info == nil {
				return nil, false, errors.New("unknown")
			}
			return &authenticator.Response{User: s.Info}, true, nil
		}),
		authorizer: s.authorizer,
	}
}

func newResolver() *request.RequestInfoFactory {
	return &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
}

var (
	admin = &user.DefaultInfo{Name: AdminUser, Groups: []string{user.SystemPrivilegedGroup}}
	edge  = &user.DefaultInfo{Name: enroll.UserPrefix + "edge", Groups: []string{enroll.Agents}}
	// impostor has an agent's name and is in no group of agents.
	impostor = &user.DefaultInfo{Name: enroll.UserPrefix + "edge", Groups: []string{user.AllAuthenticated}}
)

// TestWhoMayDoWhat sends requests to each root as each kind of user.
func TestWhoMayDoWhat(t *testing.T) {
	const ok, no = http.StatusOK, http.StatusForbidden
	for _, c := range []struct {
		method, path string
		agent        int
	}{
		{"GET", "/spaces/a/api/v1/pods", no},
		{"POST", "/spaces/a/apis/apps/v1/namespaces/n/deployments", no},
		{"GET", "/spaces/edge/version", no},
		{"GET", "/spaces/*/api/v1/secrets", no},
		{"GET", "/views/locations/edge", ok},
		{"GET", "/views/locations/edge/", ok},
		{"GET", "/views/locations/edge/apis", ok},
		{"GET", "/views/locations/edge/api/v1/namespaces/n/pods/p", ok},
		{"GET", "/views/locations/edge/api/v1/watch/pods", ok},
		{"POST", "/views/locations/edge/api/v1/namespaces/n/pods", no},
		{"DELETE", "/views/locations/edge/api/v1/namespaces/n/pods", no},
		{"GET", "/views/locations/edgeland/api", no},
		{"GET", "/views/locations/core/api", no},
		{"GET", "/views/locations/core/../edge/api", no},
		{"GET", "/agent/v1/locations/edge/desired", ok},
		{"POST", "/agent/v1/locations/edge/reports", ok},
		{"POST", "/agent/v1/locations/core/reports", no},
		{"POST", "/agent/v1/locations/edge/../core/reports", ok}, // not a call of the protocol
		{"GET", "/agent/v1/locations/../../spaces/root", no},
		{"GET", "/ask/v1/spaces/a/status", no},
		{"GET", "/admin/v1/backup", no},
		{"GET", "/metrics", no},
		{"GET", "/version", no},
		{"GET", "/", no},
	} {
		for _, s := range []struct {
			who  user.Info
			code int
		}{{admin, ok}, {edge, c.agent}, {impostor, no}, {&user.DefaultInfo{Name: "x"}, no}, {nil, http.StatusUnauthorized}} {
			code, as := sender{s.who, t, &Authorizer{table: table.New(table.Config{WindowSteps: 1, WindowBytes: 1}).Table}}.send(c.method, c.path)
			if code != s.code || (as != nil) != (code == ok) {
				t.Errorf("%s %s as %v: %d, want %d", c.method, c.path, s.who, code, s.code)
			}
		}
	}
}

// TestActingAs: impersonation changes the authorized user, and only users with all rights may use
// it.
func TestActingAs(t *testing.T) {
	const path = "/agent/v1/locations/edge/desired"
	masters := []string{"Impersonate-User", AdminUser, "Impersonate-Group", user.SystemPrivilegedGroup}
	for _, c := range []struct {
		who    user.Info
		header []string
		code   int
	}{
		{edge, nil, http.StatusOK},
		{edge, masters, http.StatusForbidden},
		{edge, []string{"Impersonate-User", edge.Name}, http.StatusForbidden},
		{impostor, masters, http.StatusForbidden},
		{admin, []string{"Impersonate-User", "x", "Impersonate-Group", "some"}, http.StatusForbidden},
		{admin, []string{"Impersonate-Group", "some"}, http.StatusBadRequest},
		{admin, []string{"Impersonate-Extra-Scopes", "some"}, http.StatusBadRequest},
		{admin, []string{"Impersonate-User", edge.Name, "Impersonate-Group", enroll.Agents}, http.StatusOK},
	} {
		if code, _ := (sender{c.who, t, &Authorizer{table: table.New(table.Config{WindowSteps: 1, WindowBytes: 1}).Table}}).send("GET", path, c.header...); code != c.code {
			t.Errorf("%s with %q: %d, want %d", c.who.GetName(), c.header, code, c.code)
		}
	}
	_, as := sender{admin, t, &Authorizer{table: table.New(table.Config{WindowSteps: 1, WindowBytes: 1}).Table}}.send("GET", path, "Impersonate-User", "x", "Impersonate-Uid", "7", "Impersonate-Group", user.SystemPrivilegedGroup,
		"Impersonate-Extra-Scopes", "one", "Impersonate-Extra-Scopes", "two", "Impersonate-Extra-Example.com%2fkey", "y")
	if as == nil || as.GetName() != "x" || as.GetUID() != "7" || !slices.Equal(as.GetGroups(), []string{user.SystemPrivilegedGroup, user.AllAuthenticated}) ||
		fmt.Sprint(as.GetExtra()) != "map[example.com/key:[y] scopes:[one two]]" {
		t.Errorf("an operator acts as %+v", as)
	}
}
