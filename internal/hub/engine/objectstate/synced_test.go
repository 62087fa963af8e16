package objectstate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestSyncedPlacement: a Placement is Synced only if all that it assigns is applied, and nothing is left where it is
// no longer assigned. Objects that stay for others are a remark.
func TestSyncedPlacement(t *testing.T) {
	const applied = "everything assigned is applied"
	all := v1alpha1.Counts{Assigned: 2, Applied: 2}
	leaving := LeftObjects{LeftCounts: v1alpha1.LeftCounts{Leaving: 3, Leftovers: 1}}
	for name, c := range map[string]struct {
		counts  v1alpha1.Counts
		left    LeftObjects
		objects int64
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"applied":             {all, LeftObjects{}, 2, metav1.ConditionTrue, "Applied", applied},
		"left behind":         {all, leaving, 2, metav1.ConditionFalse, "Removing", "3 objects are, or may still be, at locations"},
		"left by unknown":     {all, LeftObjects{IsUnknown: true}, 2, metav1.ConditionUnknown, "Removing", "the hub does not know which Placement"},
		"stay for others":     {all, LeftObjects{LeftCounts: v1alpha1.LeftCounts{Leftovers: 1}}, 2, metav1.ConditionTrue, "Applied", applied + "; 1 objects stay"},
		"failed, left behind": {v1alpha1.Counts{Assigned: 2, Failed: 1}, leaving, 2, metav1.ConditionFalse, "Failed", "status.errors"},
		"stale":               {v1alpha1.Counts{Assigned: 2, Applied: 2, Stale: 1}, LeftObjects{}, 2, metav1.ConditionUnknown, "Stale", "when it was last seen"},
		"nothing is selected": {v1alpha1.Counts{}, LeftObjects{}, 0, metav1.ConditionFalse, v1alpha1.ReasonNoObjects, "no object matches"},
	} {
		t.Run(name, func(t *testing.T) {
			got := SyncedPlacement(c.counts, c.left, c.objects, 1)
			if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.message) || strings.Contains(got.Message, applied) && (c.left.Leaving > 0 || c.left.IsUnknown) {
				t.Errorf("%+v, want %s %s %q", got, c.status, c.reason, c.message)
			}
		})
	}
}
