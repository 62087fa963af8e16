package ready_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/ready"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// condition returns a condition of generation 2 as JSON. state is STATUS or STATUS/REASON.
func condition(name, state string) string { return conditionOf(2, name, state) }

func conditionOf(generation int, name, state string) string {
	value, reason, _ := strings.Cut(state, "/")
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":%q,"message":"m","observedGeneration":%d,"lastTransitionTime":"2026-01-0%dT00:00:00Z"}`,
		name, value, reason, generation, generation+1)
}

func statusWith(fields string, conditions ...string) string {
	if fields != "" {
		fields += ","
	}
	return `{` + fields + `"conditions":[` + strings.Join(conditions, ",") + `]}`
}

// TestReady: the condition Ready of each kind in each of its states, in an object of generation 2, and
// what kstatus makes of this object.
func TestReady(t *testing.T) {
	const observed, counts = `"observedGeneration":2`, `"observedGeneration":2,"objects":2,"locations":2,"assigned":4,"applied":4,"healthy":4`
	accepted, synced := condition("Accepted", "True/Valid"), condition("Synced", "True/Applied")
	enrolled, connected := condition("Enrolled", "True/Joined"), condition("Connected", "True/Session")
	compatible, available := condition("Compatible", "True/Protocol"), condition("ClusterAvailable", "True/Answers")
	joined := []string{enrolled, connected, compatible, available}
	complete := condition("Complete", "True/Complete")
	type states map[string]struct{ status, want string }
	served := states{
		"new":                   {"", "Unknown/NotObserved"},
		"served":                {statusWith("", condition("Ready", "True/Served")), "True/Served"},
		"refused":               {statusWith("", condition("Ready", "False/NoDefinition")), "False/NoDefinition"},
		"served before an edit": {statusWith("", conditionOf(1, "Ready", "True/Served")), "Unknown/NotObserved"},
	}
	for r, all := range map[key.Resource]states{
		key.Placements: {
			"new":                    {"", "Unknown/NotObserved"},
			"with an empty status":   {"{}", "Unknown/NotObserved"},
			"ready":                  {statusWith(counts, accepted, synced), "True/Ready"},
			"edited":                 {statusWith(strings.Replace(counts, ":2", ":1", 1), conditionOf(1, "Accepted", "True/Valid"), conditionOf(1, "Synced", "True/Applied")), "Unknown/NotObserved"},
			"with an old condition":  {statusWith(counts, accepted, conditionOf(1, "Synced", "True/Applied")), "Unknown/NotObserved"},
			"without Synced":         {statusWith(counts, accepted), "Unknown/NotObserved"},
			"invalid":                {statusWith(counts, condition("Accepted", "False/Invalid"), synced), "False/Invalid"},
			"without objects":        {statusWith(observed, accepted, condition("Synced", "False/NoObjects")), "False/NoObjects"},
			"without locations":      {statusWith(observed, accepted, condition("Synced", "False/NoLocations")), "False/NoLocations"},
			"progressing":            {statusWith(strings.Replace(counts, `applied":4`, `applied":3`, 1), accepted, condition("Synced", "False/Progressing")), "False/Progressing"},
			"with waiting removals":  {statusWith(counts, accepted, condition("Synced", "False/PruneGuard")), "False/PruneGuard"},
			"stale":                  {statusWith(counts+`,"stale":1`, accepted, condition("Synced", "Unknown/Stale")), "Unknown/Stale"},
			"stale by its counts":    {statusWith(counts+`,"stale":1`, accepted, synced), "Unknown/Stale"},
			"not healthy":            {statusWith(strings.Replace(counts, `healthy":4`, `healthy":3`, 1), accepted, synced), "False/NotHealthy"},
			"with unknown locations": {statusWith(counts, accepted, synced, condition("LocationsKnown", "False/NoSuchLocation")), "False/NoSuchLocation"},
			"with part of a release": {statusWith(counts, accepted, synced, condition("WholeReleases", "False/PartOfHelmRelease")), "False/PartOfHelmRelease"},
			"without a status":       {statusWith(counts, accepted, synced, condition("StatusReturned", "False/StatusLeftOut")), "False/StatusLeftOut"},
			"upsynced":               {statusWith(counts, accepted, synced, condition("Upsynced", "True/Asked")), "True/Ready"},
			"with upsync only":       {statusWith(observed, accepted, condition("Synced", "True/Asked"), condition("Upsynced", "True/Asked")), "True/Ready"},
			"upsync only, stale":     {statusWith(observed, accepted, condition("Synced", "Unknown/Stale"), condition("Upsynced", "True/Asked")), "Unknown/Stale"},
			"upsynced by some":       {statusWith(counts, accepted, synced, condition("Upsynced", "False/NotAdmitted")), "False/NotAdmitted"},
			"False counts more":      {statusWith(counts, accepted, condition("Synced", "Unknown/Stale"), condition("LocationsKnown", "False/NoSuchLocation")), "False/NoSuchLocation"},
			"with a stored Ready":    {statusWith(observed, accepted, condition("Synced", "False/NoObjects"), condition("Ready", "True/Ready")), "False/NoObjects"},
		},
		key.Locations: {
			"new":                      {"", "False/NotEnrolled"},
			"never joined, given up":   {statusWith("", condition("Connected", "False/Disconnected")), "False/NotEnrolled"},
			"joined, not seen":         {statusWith("", enrolled), "Unknown/NotObserved"},
			"ready":                    {statusWith("", joined...), "True/Ready"},
			"connected before an edit": {statusWith("", enrolled, conditionOf(1, "Connected", "True/Session"), compatible, available), "Unknown/NotObserved"},
			"disconnected":             {statusWith("", enrolled, condition("Connected", "False/Disconnected"), compatible, available), "False/Disconnected"},
			"incompatible":             {statusWith("", enrolled, connected, condition("Compatible", "False/Protocol"), available), "False/Protocol"},
			"with a cluster away":      {statusWith("", enrolled, connected, compatible, condition("ClusterAvailable", "False/ClusterUnavailable")), "False/ClusterUnavailable"},
			"with a cluster unknown":   {statusWith("", enrolled, connected, compatible), "Unknown/NotObserved"},
			"with an older agent":      {statusWith("", enrolled, connected, compatible, condition("ClusterAvailable", "Unknown/AgentTooOld")), "True/Ready"},
			"older agent, gone":        {statusWith("", enrolled, condition("Connected", "False/Disconnected"), compatible, condition("ClusterAvailable", "Unknown/AgentTooOld")), "False/Disconnected"},
			"older agent, halted":      {statusWith(`"agent":{"halted":"h"}`, enrolled, connected, compatible, condition("ClusterAvailable", "Unknown/AgentTooOld")), "False/Halted"},
			"revoked":                  {statusWith("", condition("Enrolled", "False/Revoked"), connected, compatible, available), "False/Revoked"},
			"halted":                   {statusWith(`"agent":{"halted":"h"}`, joined...), "False/Halted"},
			"on another log":           {statusWith(`"agent":{"lineage":"Unproven"}`, joined...), "False/LineageUnproven"},
			"with a full disk":         {statusWith(`"agent":{"storeError":"e"}`, joined...), "False/StoreNotWritable"},
			"with waiting removals":    {statusWith(`"agent":{"prune":{"pending":1,"digest":"d"}}`, joined...), "False/PruneGuard"},
			"purging":                  {statusWith(`"agent":{"purge":{"left":1}}`, joined...), "False/Purging"},
			"with failed objects":      {statusWith(`"assigned":2,"failed":1`, append(joined, condition("Synced", "False/Failed"))...), "True/Ready"},
		},
		key.Customizers: {
			"new":          {"", "Unknown/NotObserved"},
			"ready":        {statusWith("", accepted), "True/Ready"},
			"edited":       {statusWith("", conditionOf(1, "Accepted", "True/Valid")), "Unknown/NotObserved"},
			"invalid":      {statusWith("", condition("Accepted", "False/Invalid")), "False/Invalid"},
			"failing":      {statusWith(`"errors":[{"object":"core/configmaps/n/x","location":"l","rule":1,"reason":"RuleFailed"}]`, accepted), "False/RuleFailed"},
			"not a status": {`[]`, ""},
		},
		key.Summaries: {
			"new":                  {"", "Unknown/NotObserved"},
			"ready":                {statusWith(observed, accepted, complete), "True/Ready"},
			"ready, with a limit":  {statusWith(observed+`,"truncated":true,"total":200`, accepted, complete), "True/Ready"},
			"edited":               {statusWith(`"observedGeneration":1`, accepted, complete), "Unknown/NotObserved"},
			"invalid":              {statusWith(observed, condition("Accepted", "False/Invalid"), condition("Complete", "False/Invalid")), "False/Invalid"},
			"too large":            {statusWith(observed, accepted, condition("Complete", "False/TooLarge")), "False/TooLarge"},
			"with failed objects":  {statusWith(observed+`,"failed":1`, accepted, complete), "False/ExpressionFailed"},
			"with stale objects":   {statusWith(observed+`,"stale":1,"counted":2`, accepted, complete), "Unknown/Stale"},
			"late":                 {statusWith(observed+`,"asOf":"2026-01-01T00:00:00Z"`, accepted, condition("Complete", "False/Counting")), "False/Counting"},
			"late, and said so":    {statusWith(observed+`,"asOf":"2026-01-01T00:00:00Z"`, accepted, complete), "Unknown/Stale"},
			"without its Complete": {statusWith(observed, accepted), "Unknown/NotObserved"},
		},
		key.Spaces: served, key.APIExports: served, key.APIBindings: served, key.APIExportViews: served,
	} {
		for name, state := range all {
			t.Run(r.Resource+"/"+name, func(t *testing.T) {
				object, got := completed(t, r, "", state.status)
				if got != state.want {
					t.Fatalf("Ready is %q, want %q", got, state.want)
				}
				if object == nil {
					return
				}
				result, err := status.Compute(object)
				if err != nil {
					t.Fatal(err)
				}
				want := status.InProgressStatus
				if strings.HasPrefix(got, "True/") {
					want = status.CurrentStatus
				}
				if result.Status != want {
					t.Errorf("kstatus is %s (%s), want %s", result.Status, result.Message, want)
				}
			})
		}
	}
}

// completed returns an object of generation 2 as clients read it, and its condition Ready as STATUS/REASON;
// nil if there is none.
func completed(t *testing.T, r key.Resource, labels, status string) (*unstructured.Unstructured, string) {
	t.Helper()
	value := `{"apiVersion":"orrery.dev/v1alpha1","kind":"K","metadata":{"name":"x","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{` + labels + `}}`
	if status != "" {
		value += `,"status":` + status
	}
	value += `}`
	row := table.NewEntry(key.Object{Space: key.Root, Identity: key.Identity{Resource: r, Name: "x"}}.Key(), []byte(value), 1, 1)
	out, ok := ready.Complete(r, "x", row.Meta, row.Value)
	if string(row.Value) != value {
		t.Fatal("the stored value has changed")
	}
	if !ok {
		return nil, ""
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(out); err != nil {
		t.Fatal(err)
	}
	var typed struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(out, &typed); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(typed.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.ObservedGeneration != 2 || c.LastTransitionTime.IsZero() || c.Message == "" {
		t.Fatalf("the condition is not whole: %+v", c)
	}
	return &object, string(c.Status) + "/" + c.Reason
}

// TestTerminatingSpace: Ready of a Space that is being deleted names the finalizers that keep it.
func TestTerminatingSpace(t *testing.T) {
	const content, rest = `"orrery.dev/content"`, "the hub has yet to delete the rest of its objects"
	for finalizers, want := range map[string]string{
		content:                                  rest,
		content + `,"example.com/a","kube.io/b"`: rest + ", and other controllers have yet to remove their finalizers: example.com/a, kube.io/b",
		`"example.com/a"`:                        "other controllers have yet to remove their finalizers: example.com/a",
	} {
		value := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Space","metadata":{"name":"x","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z",` +
			`"deletionTimestamp":"2026-02-01T00:00:00Z","finalizers":[` + finalizers + `]},"status":` + statusWith("", condition("Ready", "True/Served")) + `}`
		row := table.NewEntry(key.Space("x").Key(), []byte(value), 1, 1)
		out, ok := ready.Complete(key.Spaces, "x", row.Meta, row.Value)
		var space v1alpha1.Space
		if err := json.Unmarshal(out, &space); err != nil || !ok {
			t.Fatalf("%s: %v", out, err)
		}
		c := meta.FindStatusCondition(space.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonTerminating || c.Message != "the space is being deleted: "+want ||
			c.ObservedGeneration != 3 || c.LastTransitionTime.Month() != 2 {
			t.Errorf("%s: %+v, want %q", finalizers, c, want)
		}
	}
}

// TestObservedGeneration: each kind has the generation that its status describes.
func TestObservedGeneration(t *testing.T) {
	for r, evaluated := range map[key.Resource]string{
		key.Locations: "Connected", key.Customizers: "Accepted",
		key.Spaces: "Ready", key.APIExports: "Ready", key.APIBindings: "Ready", key.APIExportViews: "Ready",
	} {
		object, _ := completed(t, r, "", statusWith("", conditionOf(1, "Enrolled", "True"), conditionOf(1, evaluated, "True")))
		if got, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); got != 1 {
			t.Errorf("%s: observed generation %d", r.Resource, got)
		}
	}
}

// TestBelow: Ready of an object for a lower hub is the one that this hub returned.
func TestBelow(t *testing.T) {
	const label = `"` + v1alpha1.ForLabel + `":"` + v1alpha1.ForBelow + `"`
	for status, want := range map[string]string{
		"": "Unknown/NotObserved",
		statusWith(`"observedGeneration":2`, condition("Accepted", "True")): "Unknown/NotObserved",
		statusWith("", condition("Ready", "True/Ready")):                    "True/Ready",
	} {
		if _, got := completed(t, key.Placements, label, status); got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
}

// TestPlacementIsNeverBetter: a Placement is Ready only while it is Accepted and Synced, all conditions
// are of its generation, and all assigned objects are healthy, in all combinations.
func TestPlacementIsNeverBetter(t *testing.T) {
	states := []metav1.ConditionStatus{"", metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue}
	readyOnes := 0
	for _, accepted := range states {
		for _, synced := range states {
			for _, known := range states {
				for observed := range int64(3) {
					for healthy := range int64(3) {
						s := v1alpha1.PlacementStatus{ObservedGeneration: observed, Counts: v1alpha1.Counts{Assigned: 2, Healthy: healthy}}
						for name, state := range map[string]metav1.ConditionStatus{"Accepted": accepted, "Synced": synced, "LocationsKnown": known} {
							if state != "" {
								s.Conditions = append(s.Conditions, metav1.Condition{Type: name, Status: state, ObservedGeneration: observed})
							}
						}
						isReady := ready.Placement(2, &s).Status == metav1.ConditionTrue
						want := accepted == metav1.ConditionTrue && synced == metav1.ConditionTrue && (known == "" || known == metav1.ConditionTrue) && observed == 2 && healthy == 2
						if isReady != want {
							t.Fatalf("%+v: ready %v, want %v", s, isReady, want)
						}
						if isReady {
							readyOnes++
						}
					}
				}
			}
		}
	}
	if readyOnes != 2 {
		t.Errorf("%d ready states, want 2", readyOnes)
	}
}
