package diagnosis

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// severity orders findings: the greatest is shown.
type severity int

const (
	nothing severity = iota
	podFailed
	notReady // a finding only with an event
	creating // a finding only with an event
	unschedulable
	unbound
	refused
	crashing
	notStarted
	noImage
)

// finding is a reason that concerns one object.
type finding struct {
	severity severity
	kind     string
	name     string
	uid      types.UID
	text     string
	final    bool
}

// withMessage returns a reason with its message, if there is one.
func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return fmt.Sprintf("%s: %s", reason, message)
}
