package write

import (
	"context"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// removal is the strategy of deletions. If a Placement of the object requires it, the write of the
// deletion timestamp also adds a finalizer, which is removed when all locations have removed the
// object.
type removal struct {
	rest.RESTDeleteStrategy
	table *table.Table
	kind  *kinds.Kind
}

var _ rest.RESTGracefulDeleteStrategy = removal{}

// CheckGracefulDelete adds the finalizer.
func (r removal) CheckGracefulDelete(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	keepUntilRemoved(ctx, r.table, r.kind, obj)
	graceful, ok := r.RESTDeleteStrategy.(rest.RESTGracefulDeleteStrategy)
	return ok && graceful.CheckGracefulDelete(ctx, obj, options)
}

// keepUntilRemoved adds the removal finalizer to an object that is about to be deleted, if a
// Placement requires it.
func keepUntilRemoved(ctx context.Context, t *table.Table, kind *kinds.Kind, obj runtime.Object) {
	m, err := meta.Accessor(obj)
	space, ok := SpaceFromContext(ctx)
	if err != nil || !ok || isDeleting(m) || slices.Contains(m.GetFinalizers(), v1alpha1.RemovalFinalizer) {
		return
	}
	if rev, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64); err == nil {
		// The membership must be that of the current version. If the request ends, nothing is written.
		_ = t.WaitFor(ctx, rev)
	}
	o := key.Object{Space: space, Identity: key.Identity{Resource: kind.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}}
	if row, _ := t.Get(o.Key()); waitsForRemoval(row) {
		m.SetFinalizers(append(m.GetFinalizers(), v1alpha1.RemovalFinalizer))
	}
}

// waitsForRemoval reports whether a Placement of a row's object requires the removal finalizer.
func waitsForRemoval(row *table.Row) bool {
	if row == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	return ok && m.Waits()
}

// KeptUntilRemoved reports whether an object is being deleted and waits until its locations have
// removed it.
func KeptUntilRemoved(row *table.Row) bool {
	return row != nil && row.Meta.Deleting && slices.ContainsFunc(gjson.GetBytes(row.Value, "metadata.finalizers").Array(), func(f gjson.Result) bool {
		return f.Str == v1alpha1.RemovalFinalizer
	})
}
