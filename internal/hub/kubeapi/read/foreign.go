package read

import (
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// others are the fields of a Location that name spaces, and objects of spaces, or count
// those of all spaces: which spaces it admits, what its agent says of single objects, how
// many there are and how they do. The annotation has what kubectl applied.
var others = []string{
	"spec.admit", "status.agent.prune", "status.agent.purge", "status.agent.deferred",
	"status.assigned", "status.applied", "status.healthy", "status.mutated", "status.failed", "status.held", "status.stale", "status.leaving", "status.leftovers",
	`metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration`,
}

// withoutOthers returns the value of a Location as spaces other than root see it. The value
// itself is not changed. What can't be read is not shown at all.
func withoutOthers(value []byte) []byte {
	for _, field := range others {
		var err error
		if value, err = sjson.DeleteBytes(value, field); err != nil {
			return []byte("{}")
		}
	}
	for i, c := range gjson.GetBytes(value, "status.conditions").Array() {
		if c.Get("type").String() != v1alpha1.ConditionSynced {
			continue
		}
		without, err := sjson.DeleteBytes(value, fmt.Sprintf("status.conditions.%d", i))
		if err != nil {
			return []byte("{}")
		}
		return without
	}
	return value
}
