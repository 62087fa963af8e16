package objectstate

import (
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// Away is the one rule of what is stale. Reports of a location may be old once its
// condition Connected is False, or ClusterAvailable, if its agent can't see the cluster. Counts, rows
// of status, statuses that come back and the condition Synced all go by it. Both conditions become
// False only some time after the cause, so that a short interruption makes nothing stale.
func Away(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionConnected) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionClusterAvailable)
}

// RowAway is Away of the row of a Location; false if there is none, since a location
// that is gone has nothing that could be stale.
func RowAway(row *table.Row) bool {
	if row == nil {
		return false
	}
	away := false
	gjson.GetBytes(row.Value, "status.conditions").ForEach(func(_, c gjson.Result) bool {
		switch c.Get("type").Str {
		case v1alpha1.ConditionConnected, v1alpha1.ConditionClusterAvailable:
			away = away || c.Get("status").Str == string(metav1.ConditionFalse)
		}
		return !away
	})
	return away
}
