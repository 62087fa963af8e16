package diagnoser

import (
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// deniedFor is the time after which a right that was denied is tried again.
	deniedFor = 5 * time.Minute
	// maxDenied is the maximum number of denied rights that are remembered.
	maxDenied = 1000
)

// right is the right to list a resource. Accounts have rights by namespace, the agent everywhere.
type right struct {
	account, namespace string
	resource           key.Resource
}

func (r right) normal() right {
	if r.account == "" {
		r.namespace = ""
	}
	return r
}

// denied remembers the rights that the cluster denied. It is not safe for concurrent use.
type denied struct{ until map[right]time.Time }

// is reports whether a right was denied recently.
func (d *denied) is(r right, now time.Time) bool { return now.Before(d.until[r.normal()]) }

// add records that a right was denied. It returns true for the first time, so that each missing right
// is logged once.
func (d *denied) add(r right, now time.Time) (first bool) {
	r = r.normal()
	if _, known := d.until[r]; !known && len(d.until) < maxDenied {
		first = true
	}
	if first || !d.until[r].IsZero() {
		d.until[r] = now.Add(deniedFor)
	}
	return first
}
