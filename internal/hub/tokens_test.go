package hub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

const masters = "system:masters"

// bearing makes a client that shows a token.
func (r *running) bearing(token string) client {
	r.t.Helper()
	ca, err := enroll.LoadOrCreate(r.dir, time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, ExpectContinueTimeout: timeout}
	r.t.Cleanup(transport.CloseIdleConnections)
	return client{&http.Client{Transport: persistent{withToken{transport, token}}, Timeout: timeout}, r}
}

type withToken struct {
	next  http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// mint creates a token as a user; code is that of the response.
func (c client) mint(spec string, header ...string) (code int, made v1alpha1.Token, body string) {
	c.r.t.Helper()
	code, body = c.send("POST "+route.Tokens, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Token","spec":`+spec+`}`, header...)
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &made); err != nil {
			c.r.t.Fatal(err)
		}
	}
	return code, made, body
}

// token makes a token as an operator.
func (r *running) token(spec string) v1alpha1.Token {
	r.t.Helper()
	code, made, body := r.as("op", masters).mint(spec)
	if code != http.StatusOK {
		r.t.Fatalf("make a token %s: %d %s", spec, code, body)
	}
	return made
}

func (r *running) revokeToken(id string) {
	r.t.Helper()
	if code, body := r.as("op", masters).send("DELETE "+route.Tokens+"/"+id, ""); code != http.StatusOK {
		r.t.Fatalf("revoke token %s: %d %s", id, code, body)
	}
}

const podsOfA = "GET /spaces/a/api/v1/pods"

// TestTokensOfPeople: a token is its user, until it expires or is revoked; the hub shows
// it once and keeps no secret.
func TestTokensOfPeople(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	made := r.token(`{"user":"jane","groups":["dev"],"description":"laptop"}`)
	jane := r.bearing(made.Status.Token)
	if code, _ := jane.send(podsOfA, ""); code != http.StatusForbidden {
		t.Errorf("without a Grant: %d", code)
	}
	r.grant("a", "dev", `{"subjects":[{"kind":"Group","name":"dev"}],"roles":[{"name":"view"}]}`)
	if code, body := jane.send(podsOfA, ""); code != http.StatusOK {
		t.Errorf("with a Grant to a group: %d %s", code, body)
	}
	code, body := jane.send("POST /spaces/a/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if code != http.StatusCreated || !strings.Contains(body, `"username":"jane"`) || !strings.Contains(body, "ORRERY-TOKEN="+made.Name) {
		t.Errorf("who am I: %d %s", code, body)
	}

	_, secret, _ := strings.Cut(made.Status.Token, ".")
	row, _ := r.Table.Get(key.Token(made.Name))
	if row == nil || bytes.Contains(row.Value, []byte(secret)) {
		t.Errorf("the log has %v", row)
	}
	op := r.as("op", masters)
	for _, path := range []string{route.Tokens, route.Tokens + "/" + made.Name} {
		code, body := op.send("GET "+path, "")
		if code != http.StatusOK || !strings.Contains(body, "laptop") || strings.Contains(body, secret) || strings.Contains(body, "hash") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}

	r.revokeToken(made.Name)
	if code, body := jane.send(podsOfA, ""); code != http.StatusUnauthorized || !strings.Contains(body, "revoked") {
		t.Errorf("revoked: %d %s", code, body)
	}
	if code, body := op.send("DELETE "+route.Tokens+"/"+made.Name, ""); code != http.StatusNotFound {
		t.Errorf("revoked again: %d %s", code, body)
	}
	short := r.bearing(r.token(`{"user":"jane","groups":["dev"],"expirationSeconds":1}`).Status.Token)
	r.eventually(func() string {
		if code, body := short.send(podsOfA, ""); code != http.StatusUnauthorized || !strings.Contains(body, "expired at") {
			return body
		}
		return ""
	})
}

// TestRefusedTokens checks that responses to refused tokens contain the reason, but not whether a token exists.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	r, other := start(t, t.TempDir()), start(t, t.TempDir())
	r.addSpace("a")
	mine := r.token(`{"user":"jane"}`).Status.Token
	id, _, _ := strings.Cut(mine, ".")
	for what, c := range map[string]struct{ token, message string }{
		"of another hub": {other.token(`{"user":"op","groups":["system:masters"]}`).Status.Token, "unknown to this hub"},
		"other secret":   {id + ".ABCDEFGHIJKLMNOPQRSTUVWXYZ", "unknown to this hub"},
		"no secret":      {id + ".", "unknown to this hub"},
		"a stub":         {"orr_t_", "Unauthorized"},
		"a path":         {"orr_t_../../../../.x", "Unauthorized"},
		"garbage":        {"garbage", "Unauthorized"},
	} {
		if code, body := r.bearing(c.token).send(podsOfA, ""); code != http.StatusUnauthorized || !strings.Contains(body, c.message) {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
}

// TestTokensOfASpace are good in it alone, and not in one that is made again.
func TestTokensOfASpace(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.addSpace("b")
	admin := r.bearing(r.token(`{"space":"a","role":"admin"}`).Status.Token)
	// A user with all rights elsewhere is limited, too.
	limited := r.bearing(r.token(`{"user":"op","groups":["system:masters"],"space":"a"}`).Status.Token)
	for _, c := range []client{admin, limited} {
		for request, want := range map[string]int{
			podsOfA: http.StatusOK, "GET /ask/v1/spaces/a/status": http.StatusOK,
			"GET /spaces/b/api/v1/pods": http.StatusForbidden, "GET /spaces/*/api/v1/pods": http.StatusForbidden,
			"GET /spaces/root/api/v1/namespaces": http.StatusForbidden, "GET /ask/v1/spaces/b/status": http.StatusForbidden,
			"GET /spaces/nowhere/api": http.StatusForbidden, "GET /metrics": http.StatusForbidden, "GET /admin/v1/backup": http.StatusForbidden,
			"GET /views/locations/l/api": http.StatusForbidden, "GET /agent/v1/locations/l/desired": http.StatusForbidden,
		} {
			if code, body := c.send(request, ""); code != want {
				t.Errorf("%s: %d %s, want %d", request, code, body, want)
			}
		}
	}
	if code, body := admin.send("POST /spaces/a/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`); code != http.StatusCreated {
		t.Errorf("a space's admin: %d %s", code, body)
	}
	if code, _, body := admin.mint(`{"space":"a","role":"view","description":"handed out"}`); code != http.StatusOK {
		t.Errorf("a space's admin hands out: %d %s", code, body)
	}
	_, all := admin.send("GET "+route.Tokens, "")
	var list v1alpha1.TokenList
	if err := json.Unmarshal([]byte(all), &list); err != nil || len(list.Items) != 3 {
		t.Errorf("a space's admin sees %s, %v", all, err)
	}

	if code, body := r.as("op", masters).send("DELETE "+orreryOf(key.Root, "spaces")+"/a", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	r.eventually(func() string { // all that is left of a space is gone, and the name is free
		code, body := r.as("op", masters).send("POST "+orreryOf(key.Root, "spaces"), `{"apiVersion":"orrery.dev/v1alpha1","kind":"Space","metadata":{"name":"a"}}`)
		if code != http.StatusCreated {
			return body
		}
		return ""
	})
	for _, c := range []client{admin, limited} {
		if code, body := c.send(podsOfA, ""); code != http.StatusUnauthorized || !strings.Contains(body, "gone") && !strings.Contains(body, "unknown") {
			t.Errorf("in a space that was made again: %d %s", code, body)
		}
	}
	r.eventually(func() string {
		if _, body := r.as("op", masters).send("GET "+route.Tokens, ""); strings.Contains(body, `"space":"a"`) {
			return "left: " + body
		}
		return ""
	})
}

// TestWhoMakesTokens: a user can't get a right by a token that the user does not have.
func TestWhoMakesTokens(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.addSpace("b")
	r.addLocation("l", nil)
	r.grant("a", "alice", `{"subjects":[{"kind":"User","name":"alice"}],"roles":[{"name":"admin"}]}`)
	r.grant("a", "eve", `{"subjects":[{"kind":"User","name":"eve"}],"roles":[{"name":"edit"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["grants"],"verbs":["create"]}]}`)
	r.grant(key.Root, "minter", `{"subjects":[{"kind":"User","name":"minter"}],"rules":[
		{"nonResourceURLs":["/admin/v1/tokens","/admin/v1/tokens/*"],"verbs":["get","post","delete"]},
		{"apiGroups":[""],"resources":["users"],"resourceNames":["jane"],"verbs":["impersonate"]},
		{"apiGroups":["orrery.dev"],"resources":["spaces"],"verbs":["get"]},
		{"apiGroups":[""],"resources":["groups"],"resourceNames":["dev"],"verbs":["impersonate"]}]}`)
	const ok, no = http.StatusOK, http.StatusForbidden
	for _, c := range []struct {
		user, groups, spec string
		want               int
	}{
		{"op", masters, `{"user":"root","groups":["system:masters"]}`, ok},
		{"op", masters, `{"user":"orrery:location:l"}`, no},
		{"op", masters, `{"user":"x","groups":["orrery:locations"]}`, no},
		{"op", masters, `{"user":"x","groups":["orrery:space:a:admin"]}`, no},
		{"op", masters, `{"user":"x","groups":["orrery:space:a:admin"],"space":"a"}`, ok},
		{"op", masters, `{"space":"nowhere","role":"view"}`, http.StatusNotFound},
		{"op", masters, `{"space":"a","role":"owner"}`, http.StatusBadRequest},
		{"op", masters, `{"role":"view"}`, http.StatusBadRequest},
		{"op", masters, `{"user":"x","expirationSeconds":0}`, http.StatusBadRequest},
		{"op", masters, `{"user":"x","expirationSeconds":99999999999}`, http.StatusBadRequest},
		{"op", masters, `{"user":"x","password":"y"}`, http.StatusBadRequest},
		{"op", masters, `{"user":"x\ny"}`, http.StatusBadRequest},
		{"minter", "", `{"user":"jane","groups":["dev"]}`, ok},
		{"minter", "", `{"user":"joe"}`, no},
		{"minter", "", `{"user":"jane","groups":["ops"]}`, no},
		{"minter", "", `{"user":"jane","groups":["system:masters"]}`, no},
		{"minter", "", `{"user":"orrery:admin"}`, no},
		{"minter", "", `{"space":"a","role":"view"}`, no},
		{"minter", "", `{"user":"jane","space":"a","role":"view"}`, no},
		{"minter", "", `{"user":"jane","space":"a"}`, ok},
		{"minter", "", `{"groups":["orrery:space:a:admin"],"space":"a"}`, no},
		{"alice", "", `{"space":"a","role":"admin"}`, ok},
		{"alice", "", `{"space":"a","role":"edit"}`, ok},
		{"alice", "", `{"space":"b","role":"view"}`, no},
		{"alice", "", `{"space":"nowhere","role":"view"}`, no},
		{"alice", "", `{"space":"root","role":"view"}`, no},
		{"alice", "", `{"user":"bob","space":"a","role":"view"}`, no},
		{"alice", "", `{"groups":["ops"],"space":"a","role":"view"}`, no},
		{"alice", "", `{"user":"bob"}`, no},
		{"alice", "team", `{}`, ok},
		{"alice", "team", `{"groups":["team"]}`, ok},
		{"alice", "team", `{"user":"alice","groups":["other"]}`, no},
		{"alice", "team", `{"user":"alice","expirationSeconds":31622400}`, no}, // her certificate ends before
		{"eve", "", `{"space":"a","role":"admin"}`, no},
		{"eve", "", `{"space":"a","role":"edit"}`, ok},
		{"orrery:location:l", "orrery:locations", `{}`, no},
		{"orrery:location:l", "orrery:locations", `{"space":"a","role":"view"}`, no},
	} {
		var groups []string
		if c.groups != "" {
			groups = []string{c.groups}
		}
		who := r.as(c.user, groups...)
		if code, _, body := who.mint(c.spec); code != c.want {
			t.Errorf("%s makes %s: %d %s, want %d", c.user, c.spec, code, body, c.want)
		}
	}
	// A user that impersonates another can't create a token for itself that way.
	if code, _, body := r.as("minter").mint(`{}`, "Impersonate-User", "jane", "Impersonate-Group", "dev"); code != no {
		t.Errorf("acting as jane: %d %s", code, body)
	}
	// What is not somebody's is not there for them.
	theirs := r.token(`{"user":"jane"}`)
	for _, method := range []string{"GET ", "DELETE "} {
		for id, want := range map[string]int{theirs.Name: http.StatusNotFound, "abcdefghijkl": http.StatusNotFound} {
			if code, body := r.as("alice").send(method+route.Tokens+"/"+id, ""); code != want {
				t.Errorf("%s of %s: %d %s", method, id, code, body)
			}
		}
	}
	if code, body := r.as("jane").send("DELETE "+route.Tokens+"/"+theirs.Name, ""); code != ok {
		t.Errorf("their own: %d %s", code, body)
	}
}

// ends waits until the hub ends a watch, whose client must have no timeout of its own.
func ends(t *testing.T, watch *http.Response) {
	t.Helper()
	begun := time.Now()
	late := time.AfterFunc(timeout, func() { _ = watch.Body.Close() })
	_, err := io.Copy(io.Discard, watch.Body)
	timedOut, ok := errors.AsType[net.Error](err)
	if isOpen := !late.Stop(); isOpen || ok && timedOut.Timeout() {
		t.Errorf("the watch goes on: %v", err)
	}
	t.Logf("ended after %s", time.Since(begun))
}

// TestTokensUnderAWatch: what is open by a token ends when it is revoked, when it expires,
// and when the one that it was made from is revoked; and nothing else does.
func TestTokensUnderAWatch(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}`)
	open := func(token string) *http.Response {
		who := r.bearing(token)
		who.Timeout = 0 // each wait has its own
		watch := who.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
		t.Cleanup(func() { _ = watch.Body.Close() })
		if watch.StatusCode != http.StatusOK {
			t.Fatal(watch.Status)
		}
		return watch
	}
	one, two := r.token(`{"user":"jane"}`), r.token(`{"user":"jane"}`)
	code, child, body := r.bearing(two.Status.Token).mint(`{}`)
	if code != http.StatusOK || child.Status.From != two.Name || child.Status.ExpirationTimestamp.After(two.Status.ExpirationTimestamp.Time) {
		t.Fatalf("for herself: %d %s", code, body)
	}
	ofOne, ofTwo, ofChild := open(one.Status.Token), open(two.Status.Token), open(child.Status.Token) //nolint:bodyclose // by open
	r.revokeToken(one.Name)
	ends(t, ofOne)
	buffer := make([]byte, 1<<16)
	r.create("a", configMapsGVR, object("v1", "ConfigMap", "default", "one", nil, nil))
	for text := ""; !strings.Contains(text, `"one"`); {
		n, err := ofTwo.Body.Read(buffer)
		if err != nil {
			t.Fatalf("another token's watch ended: %v", err)
		}
		text += string(buffer[:n])
	}
	r.revokeToken(two.Name)
	ends(t, ofTwo)
	ends(t, ofChild)
	if code, body := r.bearing(child.Status.Token).send(podsOfA, ""); code != http.StatusUnauthorized {
		t.Errorf("what was made from a revoked token: %d %s", code, body)
	}
	var expiring *http.Response
	for left := 2; expiring == nil; left *= 2 { // it may have expired before the watch is open
		made := r.bearing(r.token(fmt.Sprintf(`{"user":"jane","expirationSeconds":%d}`, left)).Status.Token)
		made.Timeout = 0
		watch := made.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
		defer func() { _ = watch.Body.Close() }()
		switch watch.StatusCode {
		case http.StatusOK:
			expiring = watch
		case http.StatusUnauthorized:
		default:
			t.Fatal(watch.Status)
		}
	}
	ends(t, expiring)
}

// TestTokensAreRemoved once they have expired for long, and not before.
func TestTokensAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	old, young := r.token(`{"user":"jane","expirationSeconds":1}`), r.token(`{"user":"jane","expirationSeconds":1000000}`)
	r.stop()
	r = start(t, dir, func(c *hub.Config) { c.Now = func() time.Time { return time.Now().Add(8 * 24 * time.Hour) } })
	r.eventually(func() string {
		if row, _ := r.Table.Get(key.Token(old.Name)); row != nil {
			return "it is still there"
		}
		return ""
	})
	if row, _ := r.Table.Get(key.Token(young.Name)); row == nil {
		t.Error("one that has not expired is gone")
	}
}

// TestRevokedUnderABackup: a backup ends when its token is revoked.
func TestRevokedUnderABackup(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	for i := range 16 { // more than is sent before the client reads
		if err := r.large(t.Context(), http.MethodPost, fmt.Sprint("large-", i), filler(i, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	made := r.token(`{"user":"copier","groups":["system:masters"]}`)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	backup := r.bearing(made.Status.Token).open(ctx, "GET "+route.Backup, "")
	defer func() { _ = backup.Body.Close() }()
	if backup.StatusCode != http.StatusOK {
		t.Fatal(backup.Status)
	}
	r.revokeToken(made.Name)
	if n, err := io.Copy(io.Discard, backup.Body); err == nil || ctx.Err() != nil {
		t.Errorf("%d bytes were sent, and %v", n, err)
	}
}

// TestReviewsKnowTheSpaceOfAToken: what a token of the space root is not good for is not
// said to be allowed by it, whatever its user may do.
func TestReviewsKnowTheSpaceOfAToken(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	op, limited := r.as("op", masters), r.bearing(r.token(`{"user":"op","groups":["system:masters"],"space":"root"}`).Status.Token)
	for _, c := range []struct {
		client
		path  string
		code  int
		wants bool
	}{{op, route.Metrics, http.StatusOK, true}, {limited, route.Metrics, http.StatusForbidden, false}, {limited, "/spaces/root/version", http.StatusOK, true}} {
		if code, body := c.send("GET "+c.path, ""); code != c.code {
			t.Errorf("%s: %d %s", c.path, code, body)
		}
		path := strings.TrimPrefix(c.path, "/spaces/root")
		_, body := c.send("POST /spaces/root/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"verb":"get","path":"`+path+`"}}}`)
		if strings.Contains(body, `"allowed":true`) != c.wants {
			t.Errorf("%s: %s", c.path, body)
		}
	}
}
