package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
)

// TestWhoIsLockedOut: a step of a rotation is refused for exactly those agents that it would lock
// out, as far as the hub knows.
func TestWhoIsLockedOut(t *testing.T) {
	location := func(enrolled metav1.ConditionStatus, a *v1alpha1.AgentStatus) *v1alpha1.Location {
		l := &v1alpha1.Location{Status: v1alpha1.LocationStatus{Agent: a}}
		if enrolled != "" {
			l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnrolled, Status: enrolled}}
		}
		return l
	}
	type all []string
	switching := needs{signs: "new", before: []string{"old", "new"}}
	finishing := needs{signs: "new", removed: "old", before: []string{"new", "old"}}
	for name, c := range map[string]struct {
		location *v1alpha1.Location
		// atSwitch and atFinish are the expected messages; empty for none.
		atSwitch, atFinish string
	}{
		"renewed":          {location(metav1.ConditionTrue, &v1alpha1.AgentStatus{Trusts: all{"new", "old"}, SignedBy: "new"}), "", ""},
		"trusts both":      {location(metav1.ConditionTrue, &v1alpha1.AgentStatus{Trusts: all{"old", "new"}, SignedBy: "old"}), "", "signed by old"},
		"trusts one":       {location(metav1.ConditionTrue, &v1alpha1.AgentStatus{Trusts: all{"old"}, SignedBy: "old"}), "does not yet trust new", "does not yet trust new"},
		"behind another":   {location(metav1.ConditionTrue, &v1alpha1.AgentStatus{Trusts: all{"system"}, SignedBy: "new"}), "", ""},
		"no status":        {location(metav1.ConditionTrue, nil), "", "not yet reported which authority"},
		"of the one older": {location(metav1.ConditionTrue, &v1alpha1.AgentStatus{Trusts: all{"new"}, SignedBy: "oldest"}), "", ""},
		"never joined":     {location("", nil), "", ""},
		"revoked":          {location(metav1.ConditionFalse, &v1alpha1.AgentStatus{Trusts: all{"old"}, SignedBy: "old"}), "", ""},
	} {
		for step, expected := range map[string]struct {
			needs needs
			want  string
		}{"switch": {switching, c.atSwitch}, "finish": {finishing, c.atFinish}} {
			if got := expected.needs.missing(c.location); !strings.Contains(got, expected.want) || (got == "") != (expected.want == "") {
				t.Errorf("%s, %s: %q, want %q", name, step, got, expected.want)
			}
		}
	}
}

// TestNoHubNoStep: if the hub does not respond, a step is refused, unless it locks out no agent or
// is forced.
func TestNoHubNoStep(t *testing.T) {
	dir := t.TempDir()
	if _, err := enroll.LoadOrCreate(dir, time.Now); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) error {
		cmd := newHubRotateCA()
		cmd.SetArgs(append([]string{"--data-dir", dir}, args...))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		return cmd.ExecuteContext(t.Context())
	}
	for _, step := range []struct {
		args    []string
		refused bool
	}{
		{[]string{"start"}, false}, {[]string{"switch"}, true}, {nil, false}, {[]string{"switch", "--force"}, false},
		{[]string{"finish"}, true}, {[]string{"undo"}, true}, {[]string{"finish", "--force"}, false}, {nil, false},
	} {
		if err := run(step.args...); (err != nil) != step.refused || err != nil && !strings.Contains(err.Error(), "--force") {
			t.Errorf("%v: %v", step.args, err)
		}
	}
}
