package hub

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// spaceLoop gives new spaces their namespace and URL, and empties spaces that
// are being deleted.
func (h *Hub) spaceLoop(ctx context.Context) error {
	c := newController("spaces", h.table, h.config.Logger, h.reconcileSpace)
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	return c.run(ctx, source{table.Under(prefix), below(prefix), byKey})
}

func (h *Hub) reconcileSpace(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	s := key.Space(o.Name)
	row, _ := h.table.Get(k)
	if row == nil {
		h.registry.Forget(s)
		return nil
	}
	if row.Meta.Deleting {
		return progressed(h.spaces.FinishSpace(ctx, s))
	}
	if err := h.spaces.EnsureNamespace(ctx, s, metav1.NamespaceDefault); err != nil {
		return err
	}
	return h.updateStatus(ctx, row, func(object []byte) (any, error) {
		var sp v1alpha1.Space
		if err := json.Unmarshal(object, &sp); err != nil {
			return nil, fmt.Errorf("decode space %q: %w", s, err)
		}
		sp.Status.URL = h.spaceURL(s)
		meta.SetStatusCondition(&sp.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Served",
			Message: "the space is served", ObservedGeneration: row.Meta.Generation, LastTransitionTime: metav1.NewTime(h.config.Now()),
		})
		return sp.Status, nil
	})
}
