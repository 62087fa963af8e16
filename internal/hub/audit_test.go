package hub_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kubeaudit "k8s.io/apiserver/pkg/audit"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// samplePolicy returns the audit policy in docs/operations/access.md.
func samplePolicy(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/access.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(page), "```yaml\n") {
		if policy, _, ok := strings.Cut(block, "```"); ok && strings.Contains(policy, "kind: Policy\n") {
			return policy
		}
	}
	t.Fatal("the page has no policy")
	return ""
}

// startAudited runs a hub with an audit log.
func startAudited(t *testing.T, policy string) (r *running, log string) {
	t.Helper()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "logs", "audit.log")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, t.TempDir(), func(c *hub.Config) { c.Audit.PolicyFile, c.Audit.Path = file, log }), log
}

// eventsIn returns the events of a log, as the libraries of Kubernetes read them. It leaves out a last
// line without an end, which the hub is writing.
func eventsIn(t *testing.T, log string) (all []auditinternal.Event) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	decoder := kubeaudit.Codecs.UniversalDecoder(auditinternal.SchemeGroupVersion)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e auditinternal.Event
		if _, kind, err := decoder.Decode(lines.Bytes(), nil, &e); err != nil || kind.GroupVersion() != auditv1.SchemeGroupVersion {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if e.AuditID == "" || e.Verb == "" || e.RequestURI == "" || e.RequestReceivedTimestamp.IsZero() || e.Stage == "" {
			t.Errorf("incomplete: %s", lines.Bytes())
		}
		all = append(all, e)
	}
	return all
}

// TestAudit: all that is served is logged as Kubernetes logs it, with its space or location,
// and no credential.
func TestAudit(t *testing.T) {
	t.Parallel()
	r, log := startAudited(t, samplePolicy(t))
	r.addSpace("a")
	r.addLocation("l", nil)
	op := r.as("op", masters)
	send := func(c client, want int, request, body string, header ...string) {
		t.Helper()
		if code, answer := c.send(request, body, header...); code != want {
			t.Errorf("%s: %d %s, want %d", request, code, answer, want)
		}
	}
	made := r.token(`{"user":"jane","description":"said"}`)
	join := r.enrol("l")
	agent := r.join("l")
	const secret = "b2YtYS10ZXN0LW5vdC10by1iZS1sb2dnZWQ="
	send(op, http.StatusCreated, "POST /spaces/a/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"said":"loud"}}`)
	send(op, http.StatusCreated, "POST /spaces/a/api/v1/namespaces/default/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"`+secret+`"}}`)
	send(op, http.StatusOK, "GET /spaces/a/api/v1/secrets", "")
	send(op, http.StatusForbidden, podsOfA, "", "Impersonate-User", "joe")
	send(r.bearing(made.Status.Token), http.StatusForbidden, podsOfA, "")
	send(r.bearing("orr_t_abcdefghijkl.NOTTOBELOGGED"), http.StatusUnauthorized, podsOfA, "")
	send(op, http.StatusOK, "GET /ask/v1/spaces/a/status", "")
	send(op, http.StatusNotFound, "GET /ask/v1/spaces/a/diff?location=l&object=core/configmaps/default/c", "")
	send(op, http.StatusOK, "GET /views/locations/l/apis", "")
	send(op, http.StatusOK, "GET /metrics", "")
	if code := agent.raw("l/reports"); code != http.StatusOK {
		t.Errorf("the agent: %d", code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watch := op.open(ctx, "GET /spaces/a/api/v1/configmaps?watch=1", "")
	cancel()
	_ = watch.Body.Close()

	find := func(stage auditinternal.Stage, what string, is func(*auditinternal.Event) bool) {
		t.Helper()
		r.eventually(func() string {
			if all := eventsIn(t, log); !slices.ContainsFunc(all, func(e auditinternal.Event) bool { return e.Stage == stage && is(&e) }) {
				return fmt.Sprintf("no event of %s among %d", what, len(all))
			}
			return ""
		})
	}
	complete := auditinternal.StageResponseComplete
	matches := func(annotation, name, uri string, code int32) func(*auditinternal.Event) bool {
		return func(e *auditinternal.Event) bool {
			return e.Annotations[annotation] == name && strings.HasPrefix(e.RequestURI, uri) && e.ResponseStatus != nil && e.ResponseStatus.Code == code
		}
	}
	find(complete, "a create", func(e *auditinternal.Event) bool {
		return matches(audit.SpaceAnnotation, "a", "/api/v1/namespaces/default/configmaps", http.StatusCreated)(e) && e.User.Username == "op" &&
			e.RequestObject != nil && bytes.Contains(e.RequestObject.Raw, []byte("loud")) && e.ResponseObject != nil && e.ObjectRef.Resource == "configmaps"
	})
	find(auditinternal.StageRequestReceived, "a create that is received", func(e *auditinternal.Event) bool {
		return e.Verb == "create" && e.Annotations[audit.SpaceAnnotation] == "a"
	})
	find(complete, "somebody acted as", func(e *auditinternal.Event) bool {
		return matches(audit.SpaceAnnotation, "a", "/api/v1/pods", http.StatusForbidden)(e) && e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "joe"
	})
	find(complete, "a token", func(e *auditinternal.Event) bool {
		return matches(audit.SpaceAnnotation, "a", "/api/v1/pods", http.StatusForbidden)(e) && e.User.Username == "jane" &&
			slices.Contains(e.User.Extra["authentication.kubernetes.io/credential-id"], "ORRERY-TOKEN="+made.Name)
	})
	find(auditinternal.StageResponseStarted, "an unknown user", matches(audit.SpaceAnnotation, "a", "/api/v1/pods", http.StatusUnauthorized))
	find(complete, "a question", matches(audit.SpaceAnnotation, "a", "/ask/v1/spaces/a/status", http.StatusOK))
	find(complete, "what is at a location", func(e *auditinternal.Event) bool {
		return matches(audit.SpaceAnnotation, "a", "/ask/v1/spaces/a/diff", http.StatusNotFound)(e) && e.Annotations[audit.LocationAnnotation] == "l" &&
			strings.Contains(e.RequestURI, "configmaps/default/c") && e.User.Username == "op"
	})
	find(complete, "a view", matches(audit.LocationAnnotation, "l", "/api", http.StatusOK))
	find(complete, "an agent", matches(audit.LocationAnnotation, "l", "/agent/v1/locations/l/", http.StatusOK))
	find(complete, "an enrolment", func(e *auditinternal.Event) bool {
		return strings.HasPrefix(e.RequestURI, route.Enrol) && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusOK
	})
	find(complete, "a token's creation", matches("", "", route.Tokens, http.StatusOK))
	find(complete, "a join token's creation", matches(audit.SpaceAnnotation, string(key.Root), "/apis/orrery.dev/v1alpha1/locations/l/token", http.StatusOK))
	find(auditinternal.StageResponseStarted, "a watch", func(e *auditinternal.Event) bool { return e.Verb == "watch" })
	find(complete, "the end of a watch", func(e *auditinternal.Event) bool { return e.Verb == "watch" })

	for _, e := range eventsIn(t, log) {
		if strings.HasPrefix(e.RequestURI, route.Metrics) {
			t.Errorf("logged against the policy: %s", e.RequestURI)
		}
		if (e.ObjectRef == nil || e.ObjectRef.Subresource == "token") && !isEmpty(e.RequestObject, e.ResponseObject) {
			t.Errorf("the body of %s is logged", e.RequestURI)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	_, bearer, _ := strings.Cut(made.Status.Token, ".")
	for _, word := range []string{bearer, join.Token, secret, "NOTTOBELOGGED", "orr_t_"} {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("%s is in the log", word)
		}
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log: %v, %v", info, err)
	}
}

func isEmpty(bodies ...*runtime.Unknown) bool {
	return !slices.ContainsFunc(bodies, func(b *runtime.Unknown) bool { return b != nil && len(b.Raw) > 0 })
}

// TestBadAudit: a hub does not start with a policy that it can't use, nor with half of what
// it takes.
func TestBadAudit(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Loud}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []audit.Config{
		{PolicyFile: bad, Path: filepath.Join(dir, "log")}, {Path: filepath.Join(dir, "log")}, {PolicyFile: bad}, {MaxSize: -1},
	} {
		config := hub.DefaultConfig()
		config.DataDir, config.Listen, config.Audit = t.TempDir(), "127.0.0.1:0", c
		if err := hub.Run(t.Context(), config, func(hub.Ready) { t.Error("it runs") }); err == nil || !strings.Contains(err.Error(), "audit") {
			t.Errorf("with %+v: %v", c, err)
		}
	}
}

const everything = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"

// TestAuditHasNoSecrets checks that no audit policy writes the content of Secrets for reads, writes and
// refused requests.
func TestAuditHasNoSecrets(t *testing.T) {
	t.Parallel()
	r, log := startAudited(t, everything)
	r.addSpace("a")
	r.addLocation("l", nil)
	op := r.as("op", masters)
	const plain, encoded, all = "open-sesame", "b3Blbi1zZXNhbWU=", "/spaces/a/api/v1/namespaces/default/secrets"
	named := func(name string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"data":{"k":"` + encoded + `"},"stringData":{"s":"` + plain + `"}}`
	}
	for _, c := range []struct{ request, body, sent string }{
		{"POST " + all, named("s"), "application/json"},
		{"POST " + all + "?dryRun=All", named("dry"), "application/json"},
		{"POST " + all, named("s"), "application/json"}, // is there
		{"POST " + all, named("NOT A NAME"), "application/json"},
		{"POST " + all + "?fieldValidation=Strict", strings.Replace(named("t"), `"data"`, `"datum":"`+plain+`","data"`, 1), "application/json"},
		{"POST " + all, strings.Replace(named("t"), encoded, plain+"!", 1), "application/json"},
		{"PUT " + all + "/s", named("s"), "application/json"},
		{"PATCH " + all + "/s", `{"stringData":{"more":"` + plain + `"}}`, mergePatch},
		{"PATCH " + all + "/s", `[{"op":"test","path":"/data/k","value":"` + plain + `"}]`, jsonPatch},
		{"PATCH " + all + "/s", `{"data":{"k":"` + encoded + `"}}`, "application/strategic-merge-patch+json"},
		{"PATCH " + all + "/s?fieldManager=m", named("s"), applyYAML},
		{"PATCH " + all + "/s?fieldManager=n", strings.Replace(named("s"), encoded, "b3Blbi1zZXNhbWU9", 1), applyYAML}, // a conflict
		{"GET " + all + "/s", "", "application/json"}, {"GET " + all, "", "application/json"}, {"GET /spaces/*/api/v1/secrets", "", "application/json"},
		{"GET " + all + "?watch=1&timeoutSeconds=1", "", "application/json"},
		{"DELETE " + all + "?dryRun=All", "", "application/json"},
		{"DELETE " + all + "/s", `{"propagationPolicy":"Orphan"}`, "application/json"},
	} {
		op.send(c.request, c.body, contentType, c.sent)
	}
	made, joined := r.token(`{"user":"jane"}`), ""
	if _, body := op.send("POST "+orreryOf(key.Root, "locations/l/token"), `{}`); true {
		joined = body[strings.Index(body, `"token":"`)+9:][:40]
	}
	op.send("POST /spaces/a/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"last"},"data":{"said":"loud"}}`)
	r.eventually(func() string {
		if text, err := os.ReadFile(log); err != nil || !bytes.Contains(text, []byte("loud")) {
			return "the last request is not in the log"
		}
		return ""
	})
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		for _, word := range []string{plain, strings.TrimRight(encoded, "="), made.Status.Token, joined} {
			if bytes.Contains(line, []byte(word)) {
				t.Errorf("%s is in the log: %.600s", word, line)
			}
		}
	}
}

// TestAuditOnAFullDisk: what can't be written is served all the same.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, t.TempDir(), func(c *hub.Config) { c.Audit.PolicyFile, c.Audit.Path = file, "/dev/full" })
	r.addSpace("a")
	for i := range 20 {
		if code, body := r.as("op", masters).send("POST /spaces/a/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"}}`, i)); code != http.StatusCreated {
			t.Errorf("%d %s", code, body)
		}
	}
	if code, body := r.as("op", masters).send("GET "+route.Metrics, ""); code != http.StatusOK || !regexp.MustCompile(`(?m)^orrery_audit_events_lost_total [1-9]`).MatchString(body) {
		t.Errorf("what is lost is not counted: %d", code)
	}
}
