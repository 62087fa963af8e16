package view

import "github.com/tidwall/sjson"

// others are the fields of a Location that name spaces, and objects of spaces: which spaces
// it admits, and what its agent says of single objects. The annotation has what kubectl
// applied.
var others = []string{
	"spec.admit", "status.agent.prune", "status.agent.purge.objects",
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
	return value
}
