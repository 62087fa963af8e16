package reconcile

import (
	"strings"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/wire"
)

// explained adds a reason to the message of a refusal that users cannot find in their object: the
// annotations of Orrery count toward the limit of a cluster for all annotations.
func explained(message string, err error) string {
	s := kubeclient.StatusOf(err)
	if s == nil || s.Details == nil {
		return message
	}
	for _, c := range s.Details.Causes {
		if c.Field == "metadata.annotations" && strings.Contains(c.Message, "Too long") {
			const why = "Orrery's own annotations count, too: leave 2 KiB for them in the object"
			return wire.Brief(why + ": " + message)
		}
	}
	return message
}
