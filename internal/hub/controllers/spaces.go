package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// spaces creates the namespace of new spaces, sets their URL, and completes the deletion of spaces.
func (c *Controllers) spaces() *controller {
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	return c.controller("spaces", c.reconcileSpace, c.follow(source{prefixTopics(prefix), below(prefix), byKey}))
}

func (c *Controllers) reconcileSpace(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	s := key.Space(o.Name)
	row, _ := c.config.Table.Get(k)
	if row == nil {
		c.config.Kinds.Forget(s)
		return nil
	}
	if row.Meta.Deleting {
		return progressed(c.config.Spaces.FinishSpace(ctx, s))
	}
	if err := c.config.Spaces.EnsureNamespace(ctx, s, metav1.NamespaceDefault); err != nil {
		return err
	}
	return c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var sp v1alpha1.Space
		if err := json.Unmarshal(object, &sp); err != nil {
			return nil, fmt.Errorf("decode space %q: %w", s, err)
		}
		sp.Status.URL = c.config.SpaceURL(s)
		meta.SetStatusCondition(&sp.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Served",
			Message: "the space is served", ObservedGeneration: row.Meta.Generation, LastTransitionTime: metav1.NewTime(c.config.Now()),
		})
		return sp.Status, nil
	})
}
