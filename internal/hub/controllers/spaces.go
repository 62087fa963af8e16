package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// spaceConfig contains the dependencies of the spaceController.
type spaceConfig struct {
	Table  *table.Table
	Status *statusWriter
	// Finish does the next step of the deletion of a space.
	Finish func(context.Context, key.Space) (write.Progress, error)
	// EnsureNamespace creates a namespace of a space unless it exists.
	EnsureNamespace func(ctx context.Context, s key.Space, name string) error
	// URL returns the URL of a space.
	URL func(key.Space) string
}

// spaceController creates the namespace of new spaces, sets their URL, and completes the deletion of
// spaces.
type spaceController struct{ config spaceConfig }

func (c *spaceController) watches() []watch {
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	return []watch{follow(c.config.Table, source{prefixTopics(prefix), below(prefix), byKey})}
}

func (c *spaceController) reconcile(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	s := key.Space(o.Name)
	row, _ := c.config.Table.Get(k)
	if row == nil {
		return nil
	}
	if row.Meta.Deleting {
		return requeue(c.config.Finish(ctx, s))
	}
	if err := c.config.EnsureNamespace(ctx, s, metav1.NamespaceDefault); err != nil {
		return err
	}
	return c.config.Status.update(ctx, row, func(object []byte) (any, error) {
		var sp v1alpha1.Space
		if err := json.Unmarshal(object, &sp); err != nil {
			return nil, fmt.Errorf("decode space %q: %w", s, err)
		}
		sp.Status.URL = c.config.URL(s)
		c.config.Status.condition(&sp.Status.Conditions, row, ready("the space is served"))
		return sp.Status, nil
	})
}
