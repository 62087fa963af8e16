package read

import (
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// others are the fields of a Location that name other spaces or their objects, or count the
// objects of all spaces: the admitted spaces, removals, and progress. The annotation
// repeats the fields that kubectl applied.
var others = []string{
	"spec.admit", "status.agent.prune", "status.agent.purge", "status.agent.deferred",
	"status.assigned", "status.applied", "status.healthy", "status.mutated", "status.failed", "status.held", "status.stale", "status.leaving", "status.leftovers",
	`metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration`,
}

// withoutOthers returns a Location as spaces other than root see it. It does not change value. A
// value that can't be parsed is replaced by an empty object.
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
