package objectstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

var (
	now    = wire.SumOf([]byte("now"))
	before = wire.SumOf([]byte("before"))
	row    = &table.Row{Entry: &table.Entry{Key: "o/s/core/configmaps/n/x", Object: &table.Object{Meta: table.Meta{UID: "u"}}}}
)

func digest(*table.Entry, *placement.Class) (wire.Sum, error) { return now, nil }
func noDigest(*table.Entry, *placement.Class) (wire.Sum, error) {
	return wire.Sum{}, errors.New("it can't be made")
}

// ruleError is the error of a rendering for which a rule is to blame.
type ruleError struct{}

func (ruleError) Error() string             { return "rules[3] of Customizer c: why" }
func (ruleError) Reason() string            { return v1alpha1.ReasonRuleFailed }
func (ruleError) FailedRule() (string, int) { return "c", 3 }

// misfit is the error of a rendering that is not right by another space's definition.
type misfit struct{}

func (misfit) Error() string             { return "spec.size" }
func (misfit) Reason() string            { return v1alpha1.ReasonDefinedOtherwise }
func (misfit) FailedRule() (string, int) { return "", 0 }

func misfits(*table.Entry, *placement.Class) (wire.Sum, error) {
	return wire.Sum{}, fmt.Errorf("render: %w", misfit{})
}

func noRule(*table.Entry, *placement.Class) (wire.Sum, error) {
	return wire.Sum{}, fmt.Errorf("render: %w", ruleError{})
}

func encode(t *testing.T, r wire.Report) []byte {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAssigned(t *testing.T) {
	place := placement.Place{Location: "l"}
	elsewhere := placement.Place{Location: "l", Owner: "other", Class: &placement.Class{Definition: &placement.Definition{}}}
	report := func(uid string, d wire.Sum, state wire.State, reason string) *wire.Report {
		return &wire.Report{
			UID: uid, Digest: d, State: state, Reason: reason, Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n",
			Status: json.RawMessage(`{"state":"Failed","uid":"other"}`), Completed: "c",
		}
	}
	applied := report("u", now, wire.Applied, "")
	for name, c := range map[string]struct {
		digest  Digest
		place   placement.Place
		report  *wire.Report
		want    Status
		failing bool
	}{
		"nothing reported": {digest, place, nil, Status{State: Pending}, false},
		"applied":          {digest, place, applied, Status{State: wire.Applied, Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, false},
		"a rule failed": {noRule, place, applied, Status{
			State: wire.Held, Reason: v1alpha1.ReasonRuleFailed, Message: "rules[3] of Customizer c: why", FailedRule: FailedRule{Customizer: "c", Rule: 3},
		}, true},
		"not right by another's definition": {misfits, place, applied, Status{State: wire.Held, Reason: v1alpha1.ReasonDefinedOtherwise, Message: "spec.size"}, true},
		"another's definition is there": {
			digest, elsewhere, applied, Status{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}, true,
		},
		"another's definition, which it contradicts, is there": {
			misfits, elsewhere, applied, Status{State: wire.InConflict, Reason: v1alpha1.ReasonDefinedOtherwise, Message: "spec.size"}, true,
		},
		"another's definition is there, and a rule fails": {
			noRule, elsewhere, applied, Status{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}, true,
		},
		"mutated":           {digest, place, report("u", now, wire.Applied, v1alpha1.ReasonMutated), Status{State: wire.Applied, Reason: v1alpha1.ReasonMutated, Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, false},
		"applied before":    {digest, place, report("u", before, wire.Applied, ""), Status{State: Pending}, false},
		"an earlier object": {digest, place, report("v", now, wire.Applied, ""), Status{State: Pending}, false},
		"failed":            {digest, place, report("u", before, wire.Failed, "Invalid"), Status{State: wire.Failed, Reason: "Invalid", Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, true},
		"unsupported":       {digest, place, report("u", before, wire.Unsupported, ""), Status{State: wire.Unsupported, Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, true},
		"in conflict":       {digest, place, report("u", before, wire.InConflict, "Exists"), Status{State: wire.InConflict, Reason: "Exists", Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, true},
		"waiting":           {digest, place, report("u", before, wire.Waiting, "NamespaceTerminating"), Status{State: wire.Waiting, Reason: "NamespaceTerminating", Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, false},
		"held there":        {digest, place, report("u", before, wire.Held, "x"), Status{State: wire.Held, Reason: "x", Message: "m", Since: "then", Health: wire.Degraded, HealthNote: "n"}, false},
		"suspended": {
			digest, placement.Place{Location: "l", Held: "by p", HeldFor: v1alpha1.ReasonSuspended}, applied,
			Status{State: wire.Held, Reason: v1alpha1.ReasonSuspended, Message: "by p"}, false,
		},
		"another space's": {
			digest, placement.Place{Location: "l", Owner: "o/x", Held: "by p"}, applied,
			Status{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}, true,
		},
		"not to be made": {noDigest, place, applied, Status{State: wire.Held, Reason: v1alpha1.ReasonNotRendered, Message: "it can't be made"}, true},
		"not to be made, and suspended": {
			noDigest, placement.Place{Location: "l", Held: "by p", HeldFor: v1alpha1.ReasonSuspended}, applied,
			Status{State: wire.Held, Reason: v1alpha1.ReasonSuspended, Message: "by p"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b []byte
			if c.report != nil {
				b = encode(t, *c.report)
			}
			for _, stale := range []bool{false, true} {
				c.want.Stale = stale
				got := Assigned(c.digest, row, c.place, b, stale)
				if got.Healthy() || got.Degraded() != (got.State == wire.Applied) {
					t.Errorf("%+v is healthy or not degraded", got)
				}
				if got != c.want || got.Failing() != c.failing || got.Stays() {
					t.Errorf("%+v, failing %v, stays %v; want %+v, %v", got, got.Failing(), got.Stays(), c.want, c.failing)
				}
			}
		})
	}
	for _, b := range []string{"", "{", "[]", `"x"`, `{"uid":"u"}`, `{"uid":"u","state":"Applied","digest":"nonsense"}`, `{"uid":["u"],"state":"Failed"}`} {
		if got := Assigned(digest, row, place, []byte(b), false); got.State == wire.Applied || got.Failing() {
			t.Errorf("a report %q is %+v", b, got)
		}
	}
}

func TestLeft(t *testing.T) {
	for _, c := range []struct {
		state  wire.State
		reason string
		want   wire.State
		stays  bool
	}{
		{wire.Removing, "Terminating", wire.Removing, false},
		{wire.Orphaned, "InUse", wire.Orphaned, true},
		{wire.Orphaned, "", wire.Orphaned, true},
		{wire.Orphaned, v1alpha1.ReasonReleased, wire.Orphaned, false},
		{wire.Applied, "", wire.Removing, false},
		{wire.Failed, "Invalid", wire.Removing, false},
	} {
		v := Left(encode(t, wire.Report{UID: "u", State: c.state, Reason: c.reason}), true)
		if v.State != c.want || v.Stays() != c.stays || !v.Unassigned || !v.Stale || v.Failing() {
			t.Errorf("%s %s is %+v", c.state, c.reason, v)
		}
	}
}

func TestHealth(t *testing.T) {
	for reported, want := range map[wire.Health]wire.Health{
		wire.Healthy: wire.Healthy, wire.Progressing: wire.Progressing, wire.Degraded: wire.Degraded, wire.HealthUnknown: wire.HealthUnknown, "Fine": "", "": "",
	} {
		v := Assigned(digest, row, placement.Place{Location: "l"}, encode(t, wire.Report{UID: "u", Digest: now, State: wire.Applied, Health: reported}), false)
		if v.Health != want || v.Healthy() != (want == wire.Healthy) || v.Degraded() != (want == wire.Degraded) {
			t.Errorf("%q is %+v", reported, v)
		}
	}
}

func TestStale(t *testing.T) {
	for _, c := range []struct {
		status metav1.ConditionStatus
		stale  bool
	}{{"", false}, {metav1.ConditionTrue, false}, {metav1.ConditionUnknown, false}, {metav1.ConditionFalse, true}} {
		l := v1alpha1.Location{}
		if c.status != "" {
			l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: c.status}}
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if got := IsRowStale(&table.Row{Entry: &table.Entry{Value: b}}); got != c.stale || IsStale(l.Status.Conditions) != c.stale {
			t.Errorf("connected %q: stale %v", c.status, got)
		}
	}
	if IsRowStale(nil) {
		t.Error("a location that is gone is stale")
	}
}

// TestReadsNoStatus shows that nothing is read of a status, which may be large.
func TestReadsNoStatus(t *testing.T) {
	b := encode(t, wire.Report{UID: "u", Digest: now, State: wire.Applied, Status: json.RawMessage(`{}`)})
	i := strings.Index(string(b), `"status":`)
	if v := Assigned(digest, row, placement.Place{Location: "l"}, append(b[:i], `"status":{nonsense`...), false); v.State != wire.Applied {
		t.Errorf("%+v", v)
	}
}

// TestSyncedNamesWhatStays: the condition of a location with all assigned objects also names leftovers.
func TestSyncedNamesWhatStays(t *testing.T) {
	s := &v1alpha1.LocationStatus{LeftCounts: v1alpha1.LeftCounts{Leftovers: 1}, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue},
	}}
	if c := SyncedLocation("l", s, v1alpha1.Counts{}); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "1 objects stay") {
		t.Errorf("%+v", c)
	}
}
