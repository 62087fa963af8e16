package objectstate

import (
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// IsStale reports whether the reports of a location may be old: its condition Connected is False, or
// ClusterAvailable, since its agent can't see the cluster. It is the only such rule: counts, rows of
// status, returned statuses and the condition Synced go by it. Both conditions become False only some
// time after the cause, so that a short interruption makes nothing stale.
func IsStale(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionConnected) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionClusterAvailable)
}

// IsRowStale is IsStale for the row of a Location. It is false without a row: a location that is gone
// has no reports.
func IsRowStale(row *table.Row) bool {
	if row == nil {
		return false
	}
	stale := false
	gjson.GetBytes(row.Value, "status.conditions").ForEach(func(_, c gjson.Result) bool {
		switch c.Get("type").Str {
		case v1alpha1.ConditionConnected, v1alpha1.ConditionClusterAvailable:
			stale = stale || c.Get("status").Str == string(metav1.ConditionFalse)
		}
		return !stale
	})
	return stale
}
