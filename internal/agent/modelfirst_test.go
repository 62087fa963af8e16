package agent

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// A hub that has objects reported before they are made, in the model.

// reportsFirst reports whether the hub requires a report of an object before it is created, which
// holds for some keys.
func reportsFirst(k string) bool { return (k[0]+k[len(k)-1])%2 == 0 }

// noteReport records whether the hub has a report of an existing object, with the hub's lock.
func (w *world) noteReport(l wire.ReportLine) {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.known[l.Key] = l.Report != nil && l.Report.State != wire.Removed
}

// judgeFirst is about an object that is made or taken over: the hub has a report of it, if
// it wants one first.
func (w *world) judgeFirst(before, after *thing, wrong func(string, ...any)) {
	space := after.meta("labels", v1alpha1.SpaceLabel)
	if before != nil && !before.foreign && before.meta("labels", v1alpha1.SpaceLabel) == space {
		return // it was there
	}
	for _, k := range w.spaceKeys(after.id) {
		if o, err := key.ParsePath(k); err == nil && string(o.Space) == space && reportsFirst(k) && !w.known[k] {
			wrong("the hub has no report of %s", k)
		}
	}
}
