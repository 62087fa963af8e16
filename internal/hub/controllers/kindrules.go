package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// kindRulesStatus writes the status of KindRules.
type kindRulesStatus struct {
	Table    *table.Table
	Status   *statusWriter
	Progress *progress.Tracker
	// Health is that of the engine that derives memberships.
	Health placement.HealthOf
}

// update writes the condition Accepted of a KindRules, and the locations where its expressions fail.
func (k *kindRulesStatus) update(ctx context.Context, o key.Object) error {
	snapshot := k.Table.Snapshot()
	row := snapshot.Get(o.Key())
	problems, ok := placement.KindRulesProblems(snapshot, o, k.Health)
	if !ok {
		return nil
	}
	// A KindRules with problems is shown at once: it is not Ready, whatever its errors are.
	if len(problems) == 0 && !progress.AreRulesCounted(k.Progress, o, row.ModRev) {
		return nil // the counter enqueues it again
	}
	errs := progress.ErrorsOfKindRules(ctx, k.Progress, o)
	return k.Status.update(ctx, row, func(object []byte) (any, error) {
		var rules v1alpha1.KindRules
		if err := json.Unmarshal(object, &rules); err != nil {
			return nil, fmt.Errorf("decode kind rules %q: %w", o.Name, err)
		}
		k.Status.condition(&rules.Status.Conditions, row, accepted(problems, "every expression can be used"))
		rules.Status.Errors = errs
		return rules.Status, nil
	})
}
