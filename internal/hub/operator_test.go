package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
)

// location reads a Location as clients see it.
func (r *running) location(name string) (l v1alpha1.Location) {
	r.t.Helper()
	u, err := r.space(key.Root).Resource(locationsGVR).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		r.t.Fatal(err)
	}
	return l
}

// eventually waits until f returns an empty text.
func (r *running) eventually(f func() string) {
	r.t.Helper()
	env.Eventually(r.t, timeout, func() error {
		if wrong := f(); wrong != "" {
			return errors.New(wrong)
		}
		return nil
	})
}

// becomes waits until a condition of a location has a status and a reason.
func (r *running) becomes(name, kind string, status metav1.ConditionStatus, reason string) (l v1alpha1.Location) {
	r.t.Helper()
	r.eventually(func() string {
		l = r.location(name)
		if c := meta.FindStatusCondition(l.Status.Conditions, kind); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("want %s %s %s: %+v", kind, status, reason, l.Status)
		}
		return ""
	})
	return l
}

// throughout checks for a while, again and again, that f returns an empty text.
func (r *running) throughout(d time.Duration, f func() string) {
	r.t.Helper()
	tick := time.NewTicker(batchDelay) // others use the machine meanwhile
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if wrong := f(); wrong != "" {
			r.t.Fatal(wrong)
		}
	}
}

// annotate changes the annotations of the location a.
func (r *running) annotate(annotations string) {
	r.t.Helper()
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(r.t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":`+annotations+`}}`), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestAgentStatus checks that a location's status contains the agent's status, is written only when that
// changes, and requests the list of APIs once.
func TestAgentStatus(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	a.open(0, "").next()
	status := wire.AgentStatus{
		Version: "v9", KubernetesVersion: "v1.36.0", APIsDigest: "d1", LogIdentity: wire.Unproven, Awaits: "M", Deferred: 3,
	}
	if !a.tell(status).SendAPIs {
		t.Error("the hub does not ask for a list that it can't have")
	}
	status.APIs = []wire.API{{GroupVersion: "v1", Resources: []string{"pods"}}}
	if a.tell(status).SendAPIs {
		t.Error("the hub asks for the list it was just sent")
	}
	status.APIs = nil
	l := r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, "LineageUnproven")
	if got := l.Status.Agent; got.Version != "v9" || got.Awaits != "M" || got.Deferred != 3 || got.APIsDigest != "d1" {
		t.Errorf("the status has %+v", got)
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced); !strings.Contains(c.Message, "run: orrery location accept a") {
		t.Errorf("message %q", c.Message)
	}
	for range 5 {
		if a.tell(status).SendAPIs {
			t.Error("the hub asks for a list it has")
		}
	}
	r.idle()
	l = r.location("a")
	a.tell(status)
	r.throughout(limit.Window, func() string {
		if now := r.location("a").ResourceVersion; now != l.ResourceVersion {
			return "what says nothing new was written: revision " + now + " after " + l.ResourceVersion
		}
		return ""
	})
	status.LogIdentity, status.Awaits, status.Deferred = wire.Proven, "", 0
	status.Prune = &wire.PruneStatus{Pending: 7, Digest: "abc", Objects: make([]string, 1000)}
	a.tell(status)
	l = r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, "PruneGuard")
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced); !strings.Contains(c.Message, "orrery location confirm-prune a --digest abc") {
		t.Errorf("message %q", c.Message)
	}
	if n := len(l.Status.Agent.Prune.Objects); n != 10 {
		t.Errorf("%d examples are kept", n)
	}
	status.Prune = nil
	a.tell(status)
	r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, "Progressing")
}

// TestSyncedIsNeverWritten shows that the condition is not in the log, and keeps its time
// while it stays the same.
func TestSyncedIsNeverWritten(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.join("a").open(0, "").next()
	r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, "Progressing")
	r.eventually(func() string { // until then its time is that of each read
		if _, known := r.Statuses.Since("a", metav1.ConditionFalse); !known {
			return "Synced is not noted to be False"
		}
		return ""
	})
	l := r.location("a")
	row, _ := r.Table.Get(key.Location("a").Key())
	if strings.Contains(string(row.Value), v1alpha1.ConditionSynced) {
		t.Errorf("the log has %s", row.Value)
	}
	first := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced).LastTransitionTime
	r.addConfigMap("two", map[string]string{"what": "app"}, "2")
	r.eventually(func() string {
		if l = r.location("a"); l.Status.Assigned != 2 {
			return fmt.Sprintf("%d are assigned", l.Status.Assigned)
		}
		return ""
	})
	if now := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced).LastTransitionTime; !now.Equal(&first) {
		t.Errorf("since %s, was %s", now, first)
	}
}

// TestSyncedSinceItChanged checks that the condition's time is that of its last change, independent of reads.
func TestSyncedSinceItChanged(t *testing.T) {
	t.Parallel()
	var hours atomic.Int64
	begin := time.Now().Truncate(time.Second)
	hourly := func(hour int64) time.Time { return begin.Add(time.Duration(hour) * time.Hour) }
	r := start(t, t.TempDir(), func(c *hub.Config) { c.Now = func() time.Time { return hourly(hours.Load()) } })
	noted := func(status metav1.ConditionStatus) {
		t.Helper()
		r.eventually(func() string {
			if _, known := r.Statuses.Since("a", status); !known {
				return fmt.Sprintf("Synced is not noted to be %s", status)
			}
			return ""
		})
	}
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	r.join("a").open(0, "").next()
	noted(metav1.ConditionTrue)

	hours.Store(1)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	noted(metav1.ConditionFalse)
	hours.Store(2)
	r.addConfigMap("two", map[string]string{"what": "app"}, "2") // it is False as before
	r.eventually(func() string {
		if n := r.location("a").Status.Assigned; n != 2 {
			return fmt.Sprintf("%d are assigned", n)
		}
		return ""
	})
	hours.Store(3)
	l := r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionFalse, "Progressing")
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced); !c.LastTransitionTime.Time.Equal(hourly(1)) {
		t.Errorf("it is False since %s, not %s", c.LastTransitionTime, hourly(1))
	}
	hours.Store(4)
	for _, name := range []string{"one", "two"} {
		if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	noted(metav1.ConditionTrue)
	hours.Store(5)
	l = r.becomes("a", v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced); !c.LastTransitionTime.Time.Equal(hourly(4)) {
		t.Errorf("it is True since %s, not %s", c.LastTransitionTime, hourly(4))
	}
}

func TestSyncedCondition(t *testing.T) {
	ready := []metav1.Condition{
		{Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue},
	}
	done := v1alpha1.Counts{Assigned: 2, Applied: 2}
	for want, c := range map[string]struct {
		conditions []metav1.Condition
		agent      *v1alpha1.AgentStatus
		counts     v1alpha1.Counts
	}{
		"Unknown NotEnrolled":   {nil, nil, done},
		"Unknown Disconnected":  {[]metav1.Condition{ready[0], {Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse}}, nil, done},
		"True Applied":          {ready, nil, done},
		"False Progressing":     {ready, nil, v1alpha1.Counts{Assigned: 2, Applied: 1}},
		"False Failed":          {ready, nil, v1alpha1.Counts{Assigned: 2, Failed: 1, Held: 1}},
		"False Held":            {ready, nil, v1alpha1.Counts{Assigned: 2, Held: 1, Applied: 1}},
		"False Halted":          {ready, &v1alpha1.AgentStatus{Halted: "x"}, done},
		"False PruneGuard":      {ready, &v1alpha1.AgentStatus{Prune: &v1alpha1.PendingPrune{}}, done},
		"False LineageUnproven": {ready, &v1alpha1.AgentStatus{LogIdentity: "Unproven", Halted: "x"}, done},
		"False Purging":         {ready, &v1alpha1.AgentStatus{Purge: &v1alpha1.PurgeProgress{}}, done},
	} {
		got := objectstate.SyncedLocation("a", &v1alpha1.LocationStatus{Conditions: c.conditions, Agent: c.agent}, c.counts)
		if have := string(got.Status) + " " + got.Reason; have != want {
			t.Errorf("got %s, want %s", have, want)
		}
	}
}

// TestOperatorsWord shows that settings and confirmations of operators and owners of
// Placements reach the agent's open session.
func TestOperatorsWord(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	s := a.open(0, "")
	s.next()
	a.hasOne()
	next := func() wire.Settings {
		t.Helper()
		for {
			f, ok := s.next()
			if !ok {
				t.Fatal("the session ended")
			}
			if f.Settings != nil {
				return *f.Settings
			}
		}
	}
	r.annotate(`{"orrery.dev/accept":"M"}`)
	if got := next(); got.Accept != "M" {
		t.Errorf("settings %+v", got)
	}
	r.annotate(`{"orrery.dev/confirm-prune":"D"}`)
	if got := next(); len(got.Confirm) != 1 || got.Confirm[0] != (wire.Confirmation{Digest: "D"}) {
		t.Errorf("settings %+v", got)
	}
	confirm := func(digest string) {
		t.Helper()
		if _, err := r.space("s").Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"orrery.dev/confirm-prune":`+digest+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// A confirmation by a space counts only for the pending removals of that space.
	confirm(`"ignored"`)
	a.tell(wire.AgentStatus{Prune: &wire.PruneStatus{Pending: 1, Digest: "X", Spaces: []wire.SpacePrune{{Space: "s", Pending: 1, Digest: "E"}}}})
	if got := next(); len(got.Confirm) != 2 || got.Confirm[1].Digest != "ignored" {
		t.Errorf("settings %+v", got)
	}
	confirm(`"E"`)
	if got := next(); len(got.Confirm) != 2 || got.Confirm[1] != (wire.Confirmation{Space: "s", Digest: "E"}) {
		t.Errorf("settings %+v", got)
	}
	confirm(`null`)
	if got := next(); len(got.Confirm) != 1 {
		t.Errorf("settings %+v", got)
	}
}

// TestProtocol shows that an agent of another protocol version is refused, that the
// location says so, and that a compatible agent clears that.
func TestProtocol(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	req, err := a.New(t.Context(), http.MethodGet, route.Desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.Header, "7")
	resp, err := a.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("answered %s", resp.Status)
	}
	r.becomes("a", v1alpha1.ConditionCompatible, metav1.ConditionFalse, v1alpha1.ReasonProtocol)
	a.open(0, "").next()
	r.becomes("a", v1alpha1.ConditionCompatible, metav1.ConditionTrue, v1alpha1.ReasonProtocol)
}

// TestCompatibleOfAnOperator shows that a condition Compatible that an operator has set
// to False halts the agent, and is not changed by the hub.
func TestCompatibleOfAnOperator(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	s := r.join("a").open(0, "")
	s.next()
	r.becomes("a", v1alpha1.ConditionCompatible, metav1.ConditionTrue, v1alpha1.ReasonProtocol)
	l := r.location("a")
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionCompatible, Status: metav1.ConditionFalse, Reason: "Upgrade", Message: "under way",
	})
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": l.Status.Conditions}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	frames := s.until(func(f wire.Frame) bool { return f.Settings != nil })
	if f := frames[len(frames)-1]; !strings.Contains(f.Settings.Halt, "under way") {
		t.Errorf("settings %+v", f.Settings)
	}
	r.annotate(`{"x":"y"}`) // the hub looks again
	r.throughout(300*time.Millisecond, func() string {
		c := meta.FindStatusCondition(r.location("a").Status.Conditions, v1alpha1.ConditionCompatible)
		if c.Reason != "Upgrade" {
			return fmt.Sprintf("the hub made it %+v", c)
		}
		return ""
	})
}
