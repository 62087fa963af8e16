package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/test/support/limit"
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

// TestWaitForAgents shows that --wait asks the hub again until no agent would be locked out, also after the hub did not
// answer. A step is refused when the wait has ended, and a canceled command ends at once.
func TestWaitForAgents(t *testing.T) {
	const old, next = "old", "next"
	var requests, readyAt atomic.Int32
	readyAt.Store(3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := requests.Add(1)
		if request == 1 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		l := v1alpha1.Location{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
		l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue}}
		l.Status.Agent = &v1alpha1.AgentStatus{Trusts: []string{old}, SignedBy: old}
		if request >= readyAt.Load() {
			l.Status.Agent.Trusts = []string{old, next}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v1alpha1.LocationList{Items: []v1alpha1.Location{l}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c := clientcmdapi.NewConfig()
	c.Clusters["hub"] = &clientcmdapi.Cluster{Server: server.URL + "/spaces/root"}
	c.AuthInfos["hub"] = &clientcmdapi.AuthInfo{}
	c.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	c.CurrentContext = "hub"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	switching := needs{signs: next, before: []string{old, next}}
	lost, err := (rotation{kubeconfig: file, wait: limit.Wait}).await(t.Context(), switching)
	if err != nil || len(lost) > 0 || requests.Load() != readyAt.Load() {
		t.Errorf("after %d requests the step would lock out %q, %v; want none after %d", requests.Load(), lost, err, readyAt.Load())
	}
	readyAt.Store(1000)
	lost, err = (rotation{kubeconfig: file}).await(t.Context(), switching)
	if err != nil || len(lost) != 1 || !strings.Contains(lost[0], "edge: it trusts old and does not yet trust next") {
		t.Errorf("without a wait the step would lock out %q, %v", lost, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = (rotation{kubeconfig: file, wait: limit.Wait}).await(ctx, switching); err == nil {
		t.Error("a canceled command waits to the end")
	}
}
