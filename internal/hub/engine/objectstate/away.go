package objectstate

import (
	"encoding/json"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// Away is the one rule of what is stale: what is known of a location's objects may be
// old once its condition Connected is False. Counts, rows of status and the condition
// Synced all go by it. Connected becomes False only some time after a session has
// ended or the hub has started, so a short interruption makes nothing stale.
func Away(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionConnected)
}

// RowAway is Away of the row of a Location; false if there is none, since a location
// that is gone has nothing that could be stale.
func RowAway(row *table.Row) bool {
	if row == nil {
		return false
	}
	raw := gjson.GetBytes(row.Value, "status.conditions").Raw
	if raw == "" {
		return false
	}
	var conditions []metav1.Condition
	return json.Unmarshal([]byte(raw), &conditions) == nil && Away(conditions)
}
