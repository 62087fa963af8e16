package hub_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// answer is all that a client sees of an answer but for what is of each one alone.
func (c client) answer(request, body string, header ...string) (text string, took time.Duration) {
	c.r.t.Helper()
	ctx, cancel := context.WithTimeout(c.r.t.Context(), timeout)
	defer cancel()
	begun := time.Now()
	resp := c.open(ctx, request, body, header...)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.r.t.Fatalf("%s: %v", request, err)
	}
	took = time.Since(begun)
	for _, name := range []string{"Date", "Audit-Id"} {
		resp.Header.Del(name)
	}
	return fmt.Sprint(resp.StatusCode, resp.Header, string(got)), took
}

// TestNothingIsTold: a user without a right gets the same response, byte for byte, whether the space, location,
// view, object or token exists or not.
func TestNothingIsTold(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.addLocation("mine", nil)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	r.grant("b", "narrow", `{"subjects":[{"kind":"User","name":"jack"}],"rules":[{"apiGroups":[""],"resources":["secrets"],"resourceNames":["b-y"],"verbs":["*"]}]}`)
	r.grant(key.Root, "some", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}],"spaces":{"selector":{"matchLabels":{"team":"x"}}}}`)
	theirs := r.token(`{"user":"op"}`).Name
	none := strings.Repeat("a", len(theirs))
	const review = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`
	pairs := []struct{ request, is, not, body string }{
		{"GET /spaces/%s/api/v1/secrets", "b", "n", ""}, {"GET /spaces/%s/api", "b", "n", ""}, {"GET /spaces/%s/version", "b", "n", ""}, {"HEAD /spaces/%s/version", "b", "n", ""},
		{"GET /spaces/%s/openapi/v3", "b", "n", ""}, {"GET /spaces/%s/apis/b.example/v1/gizmos", "b", "n", ""}, {"GET /spaces/%s/api/v1/secrets?watch=1", "b", "n", ""},
		{"POST /spaces/%s/api/v1/namespaces", "b", "n", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`},
		{"POST /spaces/%s/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "b", "n", review}, {"DELETE /spaces/%s/api/v1/namespaces/default/secrets", "b", "n", ""},
		{"GET /ask/v1/spaces/%s/status", "b", "n", ""}, {"GET /ask/v1/spaces/%s/why?object=core/secrets/default/b-x", "b", "n", ""}, {"GET /ask/v1/spaces/%s/endpoints", "b", "n", ""},
		{"GET /views/locations/%s/api", "edge", "nope", ""}, {"GET /views/locations/%s/api/v1/secrets", "edge", "nope", ""}, {"GET /views/locations/%s/api/v1/secrets?watch=1", "edge", "nope", ""},
		{"GET /agent/v1/locations/%s/desired", "edge", "nope", ""}, {"POST /agent/v1/locations/%s/reports", "edge", "nope", "{}"}, {"POST /agent/v1/locations/%s/status", "edge", "nope", "{}"},
		{"GET " + orreryOf(key.Root, "spaces/%s"), "b", "n", ""}, {"GET " + orreryOf(key.Root, "locations/%s"), "edge", "nope", ""}, {"POST " + orreryOf(key.Root, "locations/%s/token"), "edge", "nope", "{}"},
		{"GET " + route.Tokens + "/%s", theirs, none, ""}, {"DELETE " + route.Tokens + "/%s", theirs, none, ""},
		{"POST " + route.Tokens, "b", "n", `{"spec":{"space":"%s","role":"view"}}`}, {"POST " + route.Tokens, "b", "n", `{"spec":{"space":"%s"}}`}, {"POST " + route.Tokens + "?dryRun=All", "b", "n", `{"spec":{"space":"%s","user":"x"}}`},
		{"GET /spaces/b/api/v1/namespaces/default/secrets/%s", "b-x", "b-z", ""}, {"PUT /spaces/b/api/v1/namespaces/default/secrets/%s", "b-x", "b-z", "{}"},
		{"PATCH /spaces/b/api/v1/namespaces/default/secrets/%s?fieldManager=m", "b-x", "b-z", "{}"}, {"DELETE /spaces/b/api/v1/namespaces/default/secrets/%s", "b-x", "b-z", ""},
		{"GET /ask/v1/spaces/b/why?object=core/secrets/default/%s", "b-x", "b-z", ""}, {"GET /ask/v1/spaces/b/status?object=core/secrets/default/%s", "b-x", "b-z", ""},
	}
	fill := func(text, name string) string { return strings.ReplaceAll(text, "%s", name) }
	for who, c := range map[string]client{
		"nobody": r.as("nobody"), "jane": r.as("jane"), "jack": r.as("jack"), "scoped": r.bearing(r.token(`{"space":"a","role":"admin"}`).Status.Token),
		"an agent": r.as("orrery:location:mine", "orrery:locations"), "unknown": r.bearing("orr_t_" + theirs + ".x"),
	} {
		for _, p := range pairs {
			if who == "jack" && (p.is == "b") {
				continue // the user has a right in b
			}
			is, _ := c.answer(fill(p.request, p.is), fill(p.body, p.is))
			not, _ := c.answer(fill(p.request, p.not), fill(p.body, p.not))
			if hide := strings.NewReplacer(`"`+p.is+`"`, "X", `\"`+p.is+`\"`, "X", "/"+p.is, "/X", `"`+p.not+`"`, "X", `\"`+p.not+`\"`, "X", "/"+p.not, "/X"); hide.Replace(is) != hide.Replace(not) || strings.HasPrefix(is, "2") {
				t.Errorf("%s, %s: %s\nand where there is none: %s", who, p.request, is, not)
			}
		}
	}
	// The durations, which must not depend on it either, are written to the log of this test.
	jane := r.as("jane")
	for _, p := range []struct{ request, is, not string }{{pairs[0].request, "b", "n"}, {pairs[14].request, "edge", "nope"}, {pairs[22].request, theirs, none}} {
		var times [2][]time.Duration
		const rounds = 20
		for range rounds {
			for i, name := range []string{p.is, p.not} {
				_, took := jane.answer(fill(p.request, name), "")
				times[i] = append(times[i], took)
			}
		}
		for i := range times {
			slices.Sort(times[i])
		}
		t.Logf("%s: median %s where it is, %s where it is not", p.request, times[0][rounds/2], times[1][rounds/2])
	}
}
