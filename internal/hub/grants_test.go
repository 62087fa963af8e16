package hub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// client sends requests as a user with a certificate of the hub.
type client struct {
	*http.Client
	r *running
}

// as makes a client of a user in groups.
func (r *running) as(user string, groups ...string) client {
	r.t.Helper()
	if l, ok := strings.CutPrefix(user, enroll.UserPrefix); ok && slices.Contains(groups, enroll.Agents) {
		return client{r.join(key.Location(l)).HTTP, r} // no other certificate is that of an agent
	}
	ca, err := enroll.LoadOrCreate(r.dir, time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	pair, err := ca.Client(user, groups...)
	if err != nil {
		r.t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, ExpectContinueTimeout: timeout,
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return client{&http.Client{Transport: persistent{transport}, Timeout: timeout}, r}
}

// open sends METHOD PATH, with a body and headers, and returns the answer.
func (c client) open(ctx context.Context, request, body string, header ...string) *http.Response {
	c.r.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(ctx, method, c.r.URL+path, bytes.NewBufferString(body))
	if err != nil {
		c.r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if header[i] == contentType {
			req.Header.Del(contentType)
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		c.r.t.Fatalf("%s: %v", request, err)
	}
	return resp
}

// send returns the code and the body of an answer.
func (c client) send(request, body string, header ...string) (int, string) {
	c.r.t.Helper()
	ctx, cancel := context.WithCancel(c.r.t.Context())
	defer cancel()
	resp := c.open(ctx, request, body, header...)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.r.t.Fatalf("%s: %v", request, err)
	}
	return resp.StatusCode, string(text)
}

// grant writes a Grant, or replaces its spec.
func (r *running) grant(s key.Space, name, spec string) {
	r.t.Helper()
	code, body := r.as("grants", "system:masters").send("PATCH "+grantsOf(s)+"/"+name+"?fieldManager=test&force=true",
		`{"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"name":"`+name+`"},"spec":`+spec+`}`, contentType, applyYAML)
	if code != http.StatusOK && code != http.StatusCreated {
		r.t.Fatalf("grant %s in %s: %d %s", spec, s, code, body)
	}
}

func (r *running) revoke(s key.Space, name string) {
	r.t.Helper()
	if code, body := r.as("grants", "system:masters").send("DELETE "+grantsOf(s)+"/"+name, ""); code != http.StatusOK {
		r.t.Fatalf("revoke %s in %s: %d %s", name, s, code, body)
	}
}

const (
	contentType = "Content-Type"
	applyYAML   = "application/apply-patch+yaml"
	mergePatch  = "application/merge-patch+json"
	jsonPatch   = "application/json-patch+json"
)

func orreryOf(s key.Space, resource string) string {
	return "/spaces/" + string(s) + "/apis/orrery.dev/v1alpha1/" + resource
}

func grantsOf(s key.Space) string { return orreryOf(s, "grants") }

// TestGrantsAtOnce: what was granted just now works at once, and what was revoked just
// now does not.
func TestGrantsAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	jane := r.as("jane")
	const pods = "GET /spaces/a/api/v1/pods"
	for range 20 {
		if code, body := jane.send(pods, ""); code != http.StatusForbidden {
			t.Fatalf("before: %d %s", code, body)
		}
		r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}`)
		if code, body := jane.send(pods, ""); code != http.StatusOK {
			t.Fatalf("granted: %d %s", code, body)
		}
		r.revoke("a", "jane")
		if code, _ := jane.send(pods, ""); code != http.StatusForbidden && code != http.StatusUnauthorized {
			t.Fatalf("revoked: %d", code)
		}
	}
}

// TestRevokedUnderAWatch: an open watch ends with what allowed it, and not by an edit
// that still does.
func TestRevokedUnderAWatch(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	const view = `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}`
	r.grant("a", "jane", view)
	jane := r.as("jane")
	jane.Timeout = 0 // each wait has its own
	watch := jane.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
	defer func() { _ = watch.Body.Close() }()
	if watch.StatusCode != http.StatusOK {
		t.Fatal(watch.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		buffer := make([]byte, 1<<16)
		for {
			n, err := watch.Body.Read(buffer)
			if n > 0 {
				lines <- string(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"},{"kind":"User","name":"joe"}],"roles":[{"name":"edit"}]}`)
	r.create("a", configMapsGVR, object("v1", "ConfigMap", "default", "one", nil, nil))
	for text := ""; !strings.Contains(text, `"one"`); {
		text += limit.Receive(t, lines, "the watch goes on, which is still allowed")
	}
	begun := time.Now()
	r.revoke("a", "jane")
	r.create("a", configMapsGVR, object("v1", "ConfigMap", "default", "two", nil, nil))
	late := time.AfterFunc(timeout, func() { _ = watch.Body.Close() })
	for more := range lines {
		if strings.Contains(more, `"two"`) {
			t.Errorf("shown once it was revoked: %s", more)
		}
	}
	if !late.Stop() {
		t.Error("the watch goes on")
	}
	t.Logf("ended after %s", time.Since(begun))
}
