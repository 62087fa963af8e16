package controllers

import (
	"context"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// deletionConfig contains the dependencies of a deletionController.
type deletionConfig struct {
	Table    *table.Table
	Resource key.Resource
	// IsPending reports whether the deletion of an object has begun. The row is nil if the object
	// does not exist.
	IsPending func(*table.Row) bool
	// Finish does the next step of a deletion.
	Finish func(context.Context, key.Object) (write.Progress, error)
}

// deletionController completes the deletions of objects of one resource: it empties namespaces that
// are being deleted, deletes the objects of CRDs that are being deleted, and completes deletions of
// Pods that stopped between their two steps.
type deletionController struct{ config deletionConfig }

func (c *deletionController) watches() []watch {
	return []watch{follow(c.config.Table, source{resourceTopics(c.config.Resource), inAllSpaces(c.config.Resource), func(ch table.Change) []string {
		if !c.config.IsPending(ch.Cur) {
			return nil
		}
		return byKey(ch)
	}})}
}

func (c *deletionController) reconcile(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	return requeue(c.config.Finish(ctx, o))
}

// isDeleting reports whether an object is being deleted.
func isDeleting(row *table.Row) bool { return row != nil && row.Meta.Deleting }

// byName converts a function that takes the space and the name of an object without a namespace.
func byName(finish func(context.Context, key.Space, string) (write.Progress, error)) func(context.Context, key.Object) (write.Progress, error) {
	return func(ctx context.Context, o key.Object) (write.Progress, error) { return finish(ctx, o.Space, o.Name) }
}

// requeue converts the result of a step of a deletion. The next step goes to the end of the queue,
// so that a large deletion does not delay those of other spaces.
func requeue(progress write.Progress, err error) error {
	switch {
	case err != nil:
		return err
	case progress == write.Waiting:
		return errLater
	case progress == write.More:
		return errMore
	}
	return nil
}
