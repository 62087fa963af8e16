package hub

import (
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
)

// customizerLoop says of each Customizer whether its rules are in force.
func (h *Hub) customizerLoop(ctx context.Context) error {
	c := newController("customizers", h.table, h.config.Logger, h.reconcileCustomizer)
	return c.run(ctx, source{table.AcrossSpaces(key.Customizers), inAllSpaces(key.Customizers), byKey})
}

func (h *Hub) reconcileCustomizer(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	snapshot := h.table.Snapshot()
	row := snapshot.Get(k)
	problems, ok := placement.ProblemsOf(snapshot, o.Space, o.Name)
	if !ok {
		return nil
	}
	return h.updateStatus(ctx, row, func(object []byte) (any, error) {
		var c v1alpha1.Customizer
		if err := json.Unmarshal(object, &c); err != nil {
			return nil, fmt.Errorf("decode customizer %q: %w", o.Name, err)
		}
		h.condition(&c.Status.Conditions, row, accepted(problems, "every selector, test and path can be used"))
		return c.Status, nil
	})
}
