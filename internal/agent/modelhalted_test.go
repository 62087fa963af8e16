package agent

import (
	"fmt"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// checkHalted compares the reports of a halted agent with the cluster: what it does not have, or has
// otherwise, is not reported as applied, and how an object does is reported as it is.
func (w *world) checkHalted(desired map[string]store.Want, reports map[string]wire.Report) error {
	if w.full || !w.agent.gate.Reached() || !w.agent.store.Meta().Observes() {
		return nil
	}
	for _, id := range w.ids {
		k, x := w.winner(id, desired)
		if x == nil || !w.cluster.serves(id.Resource) || w.cluster.closed[id.Resource] || w.waits(w.cluster.objects[id.String()]) {
			continue
		}
		if err := w.checkHaltedObject(id, x, reports[k]); err != nil {
			return fmt.Errorf("halted: %s: %w", id, err)
		}
	}
	return nil
}

func (w *world) checkHaltedObject(id key.Identity, x *store.Want, r wire.Report) error {
	o, rec := w.cluster.objects[id.String()], w.recordOf(id)
	switch {
	case r.Completed != "" || r.State == "":
		return nil
	case o == nil && r.State == wire.Applied:
		return fmt.Errorf("it is not there, and reported as applied: %+v", r)
	case o == nil && (r.Health != "" || len(r.Status) > 0):
		return fmt.Errorf("it is not there, and reported %s with the status %s", r.Health, r.Status)
	case o == nil || o.foreign || rec == nil || rec.UID != o.uid || o.meta("labels", v1alpha1.LocationLabel) == "":
		return nil // no watch shows it
	case r.State == wire.Applied && r.Reason != v1alpha1.ReasonMutated && !x.Object().Policy.CreateOnly && x.Kind == store.WantPut && !w.equals(o, x.Object()):
		return fmt.Errorf("it is not as desired, and reported as applied: %+v", r)
	case x.Kind != store.WantPut || !x.Leaf.Policy.ReturnStatus || !health.HasStatus(id.Resource):
		return w.checkHealth(o, x, r)
	}
	if now, reported := gjson.Get(o.status, "n").Raw, gjson.GetBytes(r.Status, "n").Raw; now != reported {
		return fmt.Errorf("the report's status has %q, not %q", reported, now)
	}
	return w.checkHealth(o, x, r)
}
