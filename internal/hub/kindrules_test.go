package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	kindRulesPath = "/spaces/s/apis/orrery.dev/v1alpha1/kindrules"
	widgetsPath   = "/spaces/s/apis/example.org/v1/namespaces/default/widgets"
	widgetObject  = "s/example.org/widgets/default/w"
)

// kindRules returns the JSON of the KindRules k for a resource of the group example.org.
func kindRules(resource, state, message string) string {
	health, err := json.Marshal(map[string]string{"state": state, "message": message})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"apiVersion":"orrery.dev/v1alpha1","kind":"KindRules","metadata":{"name":"k"},"spec":{"kinds":[{"apiGroup":"example.org","resources":[%q]}],"health":%s}}`, resource, health)
}

// widgetSpace is a space with a Widget at the location a, which the location reports as applied and Healthy.
type widgetSpace struct {
	*running
	admin client
	a     *testAgent
	uid   string
}

func newWidgetSpace(t *testing.T, extra map[string]any) *widgetSpace {
	t.Helper()
	j := &widgetSpace{running: start(t, t.TempDir())}
	j.addSpace("s")
	j.addLocation("a", map[string]string{"where": "x"})
	j.admin = j.as("admin", "system:masters")
	definition, err := json.Marshal(widgetDefinition().Object)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := j.admin.send("POST /spaces/s/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition)); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	j.eventually(func() string {
		if code, body := j.admin.send("GET "+widgetsPath, ""); code != http.StatusOK {
			return body
		}
		return ""
	})
	j.addPlacement("s", "p", "x", "app", extra)
	code, body := j.admin.send("POST "+widgetsPath, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","labels":{"what":"app"}},"spec":{"size":3}}`)
	if code != http.StatusCreated {
		t.Fatal(code, body)
	}
	j.uid = gjson.Get(body, "metadata.uid").Str
	j.a = j.join("a")
	return j
}

// reports has the location report a status of the Widget, which is Healthy by the built-in judgement.
func (j *widgetSpace) reports(status string) {
	j.t.Helper()
	j.a.reports(wire.ReportLine{Key: widgetObject, Report: &wire.Report{
		UID: j.uid, Generation: 1, Digest: j.put().Digest, State: wire.Applied, Health: wire.Healthy, Status: json.RawMessage(status),
	}})
}

// put returns the Widget as it is sent to the location.
func (j *widgetSpace) put() *wire.Put {
	j.t.Helper()
	frames := j.a.fetch(wire.Fetch{Key: widgetObject})
	if len(frames) == 0 || frames[0].Put == nil {
		j.t.Fatalf("the Widget is sent as %+v", frames)
	}
	return frames[0].Put
}

// must sends a write and expects success.
func (j *widgetSpace) must(request, body string) {
	j.t.Helper()
	if code, answer := j.admin.send(request, body); code >= 300 {
		j.t.Fatal(request, code, answer)
	}
}

// place returns the state of the Widget at the location.
func (j *widgetSpace) place() queries.PlaceStatus {
	j.t.Helper()
	status, _ := j.statusRows()
	for _, o := range status.Objects {
		if o.Object == strings.TrimPrefix(widgetObject, "s/") && len(o.Places) == 1 {
			return o.Places[0]
		}
	}
	j.t.Fatalf("the Widget is at no location: %+v", status)
	return queries.PlaceStatus{}
}

// is waits for the health of the Widget, with its message.
func (j *widgetSpace) is(health wire.Health, message string) {
	j.t.Helper()
	j.eventually(func() string {
		if p := j.place(); p.Health != health || p.HealthNote != message {
			return fmt.Sprintf("it is %q %q, want %q %q", p.Health, p.HealthNote, health, message)
		}
		return ""
	})
}

// shows waits for a value of an object.
func (j *widgetSpace) shows(path, field, want string) {
	j.t.Helper()
	j.eventually(func() string {
		_, body := j.admin.send("GET "+path, "")
		if got := gjson.Get(body, field).String(); got != want {
			return fmt.Sprintf("%s of %s is %q, want %q: %s", field, path, got, want, body)
		}
		return ""
	})
}

const (
	readyIs = `status.conditions.#(type=="Ready")`
	broken  = "the phase is Broken (KindRules k)"
)

// TestKindRules checks that a custom resource whose status.phase is Broken is Degraded by a KindRules,
// with the message, in all that shows its health. Without the KindRules it is Healthy.
func TestKindRules(t *testing.T) {
	t.Parallel()
	j := newWidgetSpace(t, nil)
	j.reports(`{"phase":"Broken"}`)
	j.is(wire.Healthy, "")
	rules := kindRules("widgets", "object.status.phase == 'Broken' ? 'Degraded' : 'Healthy'", "'the phase is ' + object.status.phase")
	j.must("POST "+kindRulesPath, rules)
	j.shows(kindRulesPath+"/k", readyIs+".status", "True")
	j.is(wire.Degraded, broken)
	var why queries.Why
	j.question(&why, route.Why, "object", strings.TrimPrefix(widgetObject, "s/"), "location", "a")
	if text, err := json.Marshal(why); err != nil || !strings.Contains(string(text), broken) {
		t.Errorf("orrery why: %s %v", text, err)
	}
	j.shows("/spaces/s/apis/orrery.dev/v1alpha1/placements/p", "status.healthy", "0")
	j.shows("/spaces/s/apis/orrery.dev/v1alpha1/placements/p", "status.errors.0.message", broken)
	j.shows("/views/reports/spaces/s/locations/a/apis/example.org/v1/namespaces/default/widgets/w", `metadata.labels.orrery\.dev/health`, "Degraded")
	j.shows(widgetsPath+"/w", `status.conditions.#(type=="Stalled").message`, "a: "+broken)

	j.reports(`{"phase":"Ready"}`)
	j.is(wire.Healthy, "")
	j.shows("/spaces/s/apis/orrery.dev/v1alpha1/placements/p", "status.healthy", "1")

	j.must("DELETE "+kindRulesPath+"/k", "")
	j.reports(`{"phase":"Broken"}`)
	j.is(wire.Healthy, "")
}

// TestKindRulesOfUnreturnedStatus checks that a location is asked for the status of an object with
// rules, though no Placement returns it, and that it is not returned.
func TestKindRulesOfUnreturnedStatus(t *testing.T) {
	t.Parallel()
	j := newWidgetSpace(t, map[string]any{"returnStatus": "None"})
	if j.put().Policy.ReturnStatus {
		t.Fatal("the location is asked for a status without a reason")
	}
	j.must("POST "+kindRulesPath, kindRules("widgets", "object.status.phase == 'Broken' ? 'Degraded' : 'Healthy'", "'the phase is ' + object.status.phase"))
	j.eventually(func() string {
		if !j.put().Policy.ReturnStatus {
			return "the location is not asked for the status"
		}
		return ""
	})
	j.reports(`{"phase":"Broken"}`)
	j.is(wire.Degraded, broken)
	if _, body := j.admin.send("GET "+widgetsPath+"/w", ""); gjson.Get(body, "status").Exists() {
		t.Errorf("the status is returned: %s", body)
	}
}

// TestFailingKindRules checks that an object is not Healthy while an expression fails for it, and that
// the KindRules lists the object and the location.
func TestFailingKindRules(t *testing.T) {
	t.Parallel()
	j := newWidgetSpace(t, nil)
	j.reports(`{"phase":"Ready"}`)
	j.must("POST "+kindRulesPath, kindRules("widgets", "object.status.ready ? 'Healthy' : 'Degraded'", "'never'"))
	const fails = "KindRules k fails: health.state: no such key: ready"
	j.is(wire.HealthUnknown, fails)
	j.shows(kindRulesPath+"/k", readyIs+".reason", "RuleFailed")
	j.shows(kindRulesPath+"/k", `status.conditions.#(type=="Accepted").status`, "True")
	j.shows(kindRulesPath+"/k", "status.errors.0.message", fails)
	j.shows(kindRulesPath+"/k", "status.errors.0.object", "example.org/widgets/default/w")
	j.shows("/spaces/s/apis/orrery.dev/v1alpha1/placements/p", "status.healthy", "0")
	j.reports(`{"ready":true}`)
	j.is(wire.Healthy, "")
	j.shows(kindRulesPath+"/k", readyIs+".status", "True")
	j.shows(kindRulesPath+"/k", "status.errors", "")
}

// TestKindRulesAreValidated checks that invalid expressions are refused with their position.
func TestKindRulesAreValidated(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	for want, rules := range map[string]string{
		`spec.health.state: Invalid value: \"object.status.\": not valid: 1:15`:      kindRules("widgets", "object.status.", "'x'"),
		`spec.health.message: Invalid value: \"1\": the expression gives a value of`: kindRules("widgets", "'Healthy'", "1"),
		`spec.kinds[0].resources[0]: Invalid value: \"*\"`:                           kindRules("*", "'Healthy'", "'x'"),
		`spec.health.state in body should be at least 1 chars long`:                  kindRules("widgets", "", "'x'"),
	} {
		if code, body := admin.send("POST "+kindRulesPath, rules); code != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", code, body, want)
		}
	}
}

// TestKindRulesNeedRights checks that a user may only write rules for kinds whose objects they may read,
// since readers of Placements read the messages.
func TestKindRulesNeedRights(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.grant("s", "vi", `{"subjects":[{"kind":"User","name":"vi"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["kindrules"],"verbs":["*"]},{"apiGroups":["example.org"],"resources":["widgets"],"verbs":["get","list","watch"]}]}`)
	r.attempts(written{"KindRules", "kindrules"}, r.as("vi"), key.Space("s"),
		`{"kinds":[{"apiGroup":"example.org","resources":["widgets"]}],"health":{"state":"'Healthy'"}}`,
		`{"kinds":[{"resources":["secrets"]}],"health":{"state":"'Healthy'"}}`, false)
}
