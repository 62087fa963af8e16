package objectstate

import (
	"encoding/json"
	"errors"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// ruleGiving returns a health rule with a constant result.
func ruleGiving(name string, health wire.Health, message string, err error) placement.HealthRule {
	return placement.HealthRule{
		KindRules: key.Object{Space: "s", Identity: key.Identity{Resource: key.KindRules, Name: name}},
		Health:    func(placement.HealthInput) (wire.Health, string, error) { return health, message, err },
	}
}

// TestHealthRules checks how the rules of KindRules change the health that a location reports.
func TestHealthRules(t *testing.T) {
	why := errors.New("why")
	type rules = []placement.HealthRule
	for name, c := range map[string]struct {
		reported wire.Health
		rules    rules
		health   wire.Health
		message  string
		failed   string
	}{
		"worse":             {wire.Healthy, rules{ruleGiving("a", wire.Degraded, "broken", nil)}, wire.Degraded, "broken (KindRules a)", ""},
		"without a message": {wire.Healthy, rules{ruleGiving("a", wire.Progressing, "", nil)}, wire.Progressing, "it is Progressing (KindRules a)", ""},
		"never better":      {wire.Degraded, rules{ruleGiving("a", wire.Healthy, "", nil), ruleGiving("b", wire.Progressing, "x", nil)}, wire.Degraded, "n", ""},
		"equal":             {wire.Degraded, rules{ruleGiving("a", wire.Degraded, "broken", nil)}, wire.Degraded, "broken (KindRules a); n", ""},
		"the worst":         {wire.Healthy, rules{ruleGiving("a", wire.Progressing, "x", nil), ruleGiving("b", wire.Degraded, "y", nil)}, wire.Degraded, "y (KindRules b)", ""},
		"not known":         {"", rules{ruleGiving("a", wire.Healthy, "", nil)}, "", "n", ""},
		"not known, broken": {"", rules{ruleGiving("a", wire.Degraded, "x", nil)}, wire.Degraded, "x (KindRules a)", ""},
		"a failing rule":    {wire.Healthy, rules{ruleGiving("a", "", "", why)}, wire.HealthUnknown, "KindRules a fails: why", "a"},
		"a failing rule of a worse object": {
			wire.Degraded, rules{ruleGiving("a", "", "", why)}, wire.Degraded, "n; KindRules a fails: why", "a",
		},
		"a failing message": {wire.Healthy, rules{ruleGiving("a", wire.Degraded, "", why)}, wire.Degraded, "it is Degraded (KindRules a); KindRules a fails: why", "a"},
		"the first failing": {wire.Healthy, rules{ruleGiving("a", "", "", why), ruleGiving("b", "", "", why)}, wire.HealthUnknown, "KindRules a fails: why; KindRules b fails: why", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := wire.Report{UID: "u", Digest: now, State: wire.Applied, Health: c.reported, HealthNote: "n"}
			if c.reported == wire.Healthy {
				r.HealthNote = ""
			}
			v := Assigned(digest, row, placement.Place{Location: "l", Health: &placement.HealthRules{Rules: c.rules}}, encode(t, r), false)
			if v.Health != c.health || v.HealthNote != c.message || v.FailedRule.KindRules.Name != c.failed {
				t.Errorf("got %q %q %q, want %q %q %q", v.Health, v.HealthNote, v.FailedRule.KindRules.Name, c.health, c.message, c.failed)
			}
		})
	}
}

// TestHealthRulesNeedTheStatus checks that rules see the status of the report, and that they do not
// judge an object whose status is missing.
func TestHealthRulesNeedTheStatus(t *testing.T) {
	seen := ""
	rule := placement.HealthRule{Health: func(in placement.HealthInput) (wire.Health, string, error) {
		seen = string(in.Status)
		return wire.Degraded, "", nil
	}}
	place := placement.Place{Location: "l", Health: &placement.HealthRules{Rules: []placement.HealthRule{rule}}}
	for name, c := range map[string]struct {
		report wire.Report
		health wire.Health
		seen   string
	}{
		"applied":          {wire.Report{State: wire.Applied, Digest: now, Status: json.RawMessage(`{"a":1}`)}, wire.Degraded, `{"a":1}`},
		"failed":           {wire.Report{State: wire.Failed, Status: json.RawMessage(`{"a":2}`)}, wire.Degraded, `{"a":2}`},
		"not there":        {wire.Report{State: wire.Waiting}, "", "unseen"},
		"too large":        {wire.Report{State: wire.Applied, Digest: now, Health: wire.Healthy, StatusBytes: 9}, wire.HealthUnknown, "unseen"},
		"another version":  {wire.Report{State: wire.Applied, Digest: before, Health: wire.Healthy}, "", "unseen"},
		"without a status": {wire.Report{State: wire.Applied, Digest: now, Health: wire.Healthy}, wire.Degraded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen, c.report.UID = "unseen", "u"
			v := Assigned(digest, row, place, encode(t, c.report), false)
			if v.Health != c.health || seen != c.seen {
				t.Errorf("got %q with the status %q, want %q with %q", v.Health, seen, c.health, c.seen)
			}
		})
	}
}

// TestOmittedHealthRules checks that an object with more rules than are evaluated is not Healthy.
func TestOmittedHealthRules(t *testing.T) {
	place := placement.Place{Location: "l", Health: &placement.HealthRules{Rules: []placement.HealthRule{ruleGiving("a", wire.Healthy, "", nil)}, Omitted: 2}}
	v := Assigned(digest, row, place, encode(t, wire.Report{UID: "u", Digest: now, State: wire.Applied, Health: wire.Healthy}), false)
	if want := "KindRules a fails: 2 more apply to the kind than the 8 that are evaluated"; v.Health != wire.HealthUnknown || v.HealthNote != want {
		t.Errorf("got %q %q, want Unknown %q", v.Health, v.HealthNote, want)
	}
}
