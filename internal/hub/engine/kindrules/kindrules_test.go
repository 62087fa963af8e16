package kindrules

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/wire"
)

func newLanguage(t *testing.T) *Language {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func specOf(state, message string) *v1alpha1.KindRulesSpec {
	return &v1alpha1.KindRulesSpec{Health: v1alpha1.HealthRule{State: state, Message: message}}
}

const (
	widget = `{"metadata":{"name":"w","generation":7,"labels":{"a":"b"}},"spec":{"size":3},"status":{"phase":"of the space"}}`
	// documented is the example of docs/status.md.
	documented = "object.?status.phase.orValue('') == 'Broken' ? 'Degraded' :\nobject.?status.phase.orValue('') == 'Ready' ? 'Healthy' : 'Progressing'\n"
	byPhase    = `object.status.phase == 'Broken' ? 'Degraded' : 'Healthy'`
)

// TestHealth checks the health, the message and the error of rules for one object.
func TestHealth(t *testing.T) {
	l := newLanguage(t)
	for name, c := range map[string]struct {
		state, message, status string
		health                 wire.Health
		text, err              string
	}{
		"healthy":               {byPhase, "'never'", `{"phase":"Ready"}`, wire.Healthy, "", ""},
		"degraded":              {byPhase, "'the phase is ' + object.status.phase", `{"phase":"Broken"}`, wire.Degraded, "the phase is Broken", ""},
		"no message":            {byPhase, "", `{"phase":"Broken"}`, wire.Degraded, "", ""},
		"progressing":           {"'Progressing'", "object.metadata.labels.a", ``, wire.Progressing, "b", ""},
		"unknown":               {"'Unknown'", "string(object.spec.size)", ``, wire.HealthUnknown, "3", ""},
		"no status":             {byPhase, "", ``, "", "", "health.state: no such key: phase"},
		"an empty status":       {"has(object.status.phase) ? 'Healthy' : 'Progressing'", "", ``, wire.Progressing, "", ""},
		"a status that is text": {"object.status == {} ? 'Degraded' : 'Healthy'", "", `"text"`, wire.Degraded, "", ""},
		"another state":         {"'Broken'", "", ``, "", "", `health.state gives "Broken", want Healthy, Progressing, Degraded or Unknown`},
		"no string":             {"object.spec.size", "", ``, "", "", "health.state: the expression gives a value of type int, want a string"},
		"no generation":         {"has(object.metadata.generation) ? 'Degraded' : 'Healthy'", "", ``, wire.Healthy, "", ""},
		"optional fields":       {documented, "'the phase is ' + object.?status.phase.orValue('not set')", ``, wire.Progressing, "the phase is not set", ""},
		"optional field":        {documented, "", `{"phase":"Ready"}`, wire.Healthy, "", ""},
		"a message that fails":  {byPhase, "object.status.nothing", `{"phase":"Broken"}`, wire.Degraded, "", "health.message: no such key: nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			compute, problems := l.Health(specOf(c.state, c.message))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			for range 2 { // also from the cache
				health, text, err := compute(placement.HealthInput{Object: []byte(widget), Status: []byte(c.status)})
				why := ""
				if err != nil {
					why = err.Error()
				}
				if health != c.health || text != c.text || why != c.err {
					t.Errorf("got %q %q %q, want %q %q %q", health, text, why, c.health, c.text, c.err)
				}
			}
		})
	}
}

// TestInvalidRules checks that expressions that can't be compiled are refused with their position, and
// that a stored one fails for each object.
func TestInvalidRules(t *testing.T) {
	l := newLanguage(t)
	for name, c := range map[string]struct{ state, message, want string }{
		"syntax":           {"object.status.", "", `spec.health.state: Invalid value: "object.status.": not valid: 1:15: `},
		"unknown variable": {"'Healthy'", "status.phase", `spec.health.message: Invalid value: "status.phase": not valid: 1:1: undeclared reference to 'status'`},
		"another type":     {"object.status.ready == true", "", `spec.health.state: Invalid value: "object.status.ready == true": the expression gives a value of type bool, want a string`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(c.state, c.message)
			errs := l.Check(spec, field.NewPath("spec"))
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want) {
				t.Errorf("got %v, want %s", errs, c.want)
			}
			compute, problems := l.Health(spec)
			if len(problems) != 1 {
				t.Errorf("got %q, want one problem", problems)
			}
			if _, _, err := compute(placement.HealthInput{Object: []byte(widget)}); err == nil {
				t.Error("an invalid rule gives a health")
			}
		})
	}
}

// TestHealthIsBounded checks that an expression that costs too much fails.
func TestHealthIsBounded(t *testing.T) {
	l := newLanguage(t)
	compute, problems := l.Health(specOf("object.status.all.all(a, object.status.all.all(b, object.status.all.all(c, a + b + c > 0))) ? 'Healthy' : 'Degraded'", ""))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	status := `{"all":[` + strings.Repeat("1,", 200) + `1]}`
	if health, _, err := compute(placement.HealthInput{Object: []byte(widget), Status: []byte(status)}); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("got %q, %v, want an error about the cost", health, err)
	}
}
