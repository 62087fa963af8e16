package hub_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/seeds"
)

// slow sends a request whose body the hub waits for, calls meanwhile, and then sends the
// body.
func (c client) slow(request, body string, meanwhile func(), header ...string) (int, string) {
	c.r.t.Helper()
	reads := make(chan struct{})
	ctx, cancel := context.WithTimeout(httptrace.WithClientTrace(c.r.t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reads) }}), timeout)
	defer cancel()
	method, path, _ := strings.Cut(request, " ")
	from, to := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, method, c.r.URL+path, from)
	if err != nil {
		c.r.t.Fatal(err)
	}
	req.Header.Set(contentType, "application/json")
	req.Header.Set("Expect", "100-continue")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	go func() {
		defer func() { _ = to.Close() }()
		select {
		case <-reads:
			meanwhile()
			_, _ = io.WriteString(to, body)
		case <-ctx.Done():
		}
	}()
	resp, err := c.Transport.RoundTrip(req)
	if err != nil {
		c.r.t.Fatalf("%s: %v", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	if ctx.Err() != nil {
		c.r.t.Fatalf("%s: %v", request, ctx.Err())
	}
	return resp.StatusCode, string(text)
}

// TestRevokedDuringARequest: what was revoked while the hub waited for a body is not done,
// whatever it was that let the request in.
func TestRevokedDuringARequest(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	const (
		admin   = `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`
		actAs   = `{"subjects":[{"kind":"User","name":"imp"}],"rules":[{"apiGroups":[""],"resources":["users"],"resourceNames":["jane"],"verbs":["impersonate"]}]}`
		maps    = "/spaces/a/api/v1/namespaces/default/configmaps"
		created = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}`
		patched = `{"data":{"late":"yes"}}`
	)
	op := r.as("op", masters)
	nothing := func(what, path, text string) {
		t.Helper()
		if _, body := op.send("GET "+path, ""); strings.Contains(body, text) {
			t.Errorf("%s: it was done: %.300s", what, body)
		}
	}
	check := func(what string, c client, request, body string, revoke func(), header ...string) {
		t.Helper()
		code, answer := c.slow(request, body, func() {
			revoke()
			op.send("GET "+maps, "") // the hub has seen it when this is answered
		}, header...)
		if code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, code, answer)
		}
	}
	for what, c := range seeds.Ordered(map[string]struct{ request, body, sent string }{
		"create": {"POST " + maps, created, "application/json"},
		"patch":  {"PATCH " + maps + "/a-x", patched, mergePatch},
		"apply":  {"PATCH " + maps + "/late?fieldManager=m", created, applyYAML},
		"delete": {"DELETE " + maps + "/a-y", "{}", "application/json"},
	}) {
		r.grant("a", "jane", admin)
		check(what, r.as("jane"), c.request, c.body, func() { r.revoke("a", "jane") }, contentType, c.sent)
	}
	r.grant("a", "jane", admin)
	token := r.token(`{"user":"jane"}`)
	check("by a token", r.bearing(token.Status.Token), "POST "+maps, created, func() { r.revokeToken(token.Name) })
	token = r.token(`{"user":"jane"}`)
	check("a token of the space", r.bearing(token.Status.Token), "POST "+route.Tokens, `{"spec":{"space":"a","role":"admin","description":"late"}}`, func() { r.revokeToken(token.Name) })
	r.grant(key.Root, "imp", actAs)
	check("acting as", r.as("imp"), "POST "+maps, created, func() { r.revoke(key.Root, "imp") }, "Impersonate-User", "jane")
	token = r.token(`{"user":"op","groups":["system:masters"]}`)
	check("a join token", r.bearing(token.Status.Token), "POST "+orreryOf(key.Root, "locations/edge/token"), `{}`, func() { r.revokeToken(token.Name) })

	nothing("created", maps, `"late"`)
	nothing("patched", maps+"/a-x", "late")
	nothing("a token", route.Tokens, `"late"`)
	if code, body := op.send("GET "+maps+"/a-y", ""); code != http.StatusOK {
		t.Errorf("deleted: %d %s", code, body)
	}
	// Whose right goes on is served.
	if code, body := r.as("jane").slow("POST "+maps, created, func() { r.grant("b", "else", admin) }); code != http.StatusCreated {
		t.Errorf("not revoked: %d %s", code, body)
	}

	// A space that is created again meanwhile is another.
	code, body := r.as("jane").slow("POST "+maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"later"}}`, func() { r.again("spaces", "Space", "a") })
	if code < http.StatusBadRequest {
		t.Errorf("into another space: %d %s", code, body)
	}
	nothing("into another space", maps, `"later"`)
}
