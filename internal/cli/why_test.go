package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/queries"
)

// TestWhySaysWhatIsLeftOut: `orrery why` names the limits that a status exceeds which is not
// returned.
func TestWhySaysWhatIsLeftOut(t *testing.T) {
	var out strings.Builder
	const left = `exceeded limits of space "s": requested: objectBytes=9000, limited: objectBytes=4096`
	if err := describeWhy(&out, queries.Why{Place: &queries.PlaceStatus{Location: "a", State: "Applied", StatusLeftOut: left}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "reported by a: Applied\nits status is not returned: "+left+"\n") {
		t.Errorf("why prints:\n%s", &out)
	}
}

// TestRemovalsSayWhy: the output for an object that is being removed has the reason.
func TestRemovalsSayWhy(t *testing.T) {
	for want, p := range map[string]queries.PlaceStatus{
		"deleted: Terminating":                       {Reason: "Terminating", Cause: queries.CauseDeleted, LetGoBy: "p"},
		"unassigned by root/audit: it waits":         {Message: "it waits", Cause: queries.CauseUnassigned, LetGoBy: "root/audit"},
		"unassigned":                                 {Cause: queries.CauseUnassigned},
		"an object of this name was there before it": {Message: "an object of this name was there before it"},
	} {
		if got := messageOf(&p); got != want {
			t.Errorf("it prints %q, want %q", got, want)
		}
	}
}

// TestWhyTellsWhatRulesDo: the output has each rule with the value before and after, with long
// values cut, the rule that fails, and the reason why removals wait.
func TestWhyTellsWhatRulesDo(t *testing.T) {
	why := queries.Why{
		Decision: placement.Explanation{Object: "s/core/configmaps/default/one", Location: "a"},
		Rules: []rules.Effect{
			{Customizer: "z", Path: "$.data.a", Changes: []rules.Change{
				{Path: "$.data.a", Before: json.RawMessage(`"1"`), After: json.RawMessage(`"2"`)},
				{Path: "$.data.b", Before: json.RawMessage(`"` + strings.Repeat("x", 500) + `"`)},
				{Path: "$.data.c", Before: json.RawMessage(`"1"`), After: json.RawMessage(`"1"`)},
			}, Omitted: 7},
			{Customizer: "z", Rule: 1, Path: "$.spec[*]"},
			{Customizer: "z", Rule: 2, Path: "$.data.d", Error: "no such key: d"},
		},
		Place:   &queries.PlaceStatus{Location: "a", State: "Removing", Reason: "PruneGuard", Unassigned: true},
		Waiting: []prune.Waiting{{Placement: "p", WaitingPrune: v1alpha1.WaitingPrune{Pending: 9, Locations: 2, Digest: "ab"}}},
	}
	var out strings.Builder
	if err := describeWhy(&out, why, time.Now()); err != nil {
		t.Fatal(err)
	}
	want := `  rules[0] of Customizer z, $.data.a
    $.data.a: "1" -> "2"
    $.data.b: "` + strings.Repeat("x", 119) + `... -> (nothing)
    $.data.c: is "1" already
    and 7 more
  rules[1] of Customizer z, $.spec[*]
    changes nothing: there is nothing at its path
  rules[2] of Customizer z, $.data.d
    it fails: no such key: d
it is still at a: Removing: PruneGuard
p: 9 removals wait at 2 locations, more at once than these allow; to let them go, run: orrery placement confirm-prune p --digest ab
`
	if got := out.String(); !strings.HasSuffix(got, want) {
		t.Errorf("why prints:\n%s\nwant at its end:\n%s", got, want)
	}
}
