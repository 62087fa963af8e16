package write

import (
	"context"
	"fmt"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxBindings limits the APIBindings of a space, because a change of one is compared with
	// all others.
	maxBindings = 128
	// maxViews limits the APIExportViews of an export. Each object of the export is in each of
	// them, and the cost of its writes is in proportion to their number.
	maxViews = 16
)

// counted writes objects of limited number. It creates one object of a space at a time, after the
// table contains all earlier ones.
type counted struct{ *objects }

var _ objectStorage = counted{}

func (c counted) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	var out runtime.Object
	err := c.server.defining(ctx, func(ctx context.Context) (err error) {
		out, err = c.objects.Create(ctx, obj.DeepCopyObject(), validate, options)
		return err
	})
	return out, err
}

func (c counted) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	var out runtime.Object
	var created bool
	err := c.server.defining(ctx, func(ctx context.Context) (err error) {
		out, created, err = c.objects.Update(ctx, name, info, create, update, forceCreate, options)
		return err
	})
	return out, created, err
}

// few is a strategy that refuses creations above a limit.
type few struct {
	rest.RESTCreateUpdateStrategy
	table *table.Table
	most  int
	// like selects the objects of resource that count; nil for all.
	resource key.Resource
	like     func(row *table.Row, obj *unstructured.Unstructured) bool
	what     string
}

func (f few) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := f.RESTCreateUpdateStrategy.Validate(ctx, obj)
	u, ok := obj.(*unstructured.Unstructured)
	space, in := SpaceFromContext(ctx)
	if !ok || !in {
		return errs
	}
	n := 0
	f.table.Snapshot().Ascend(key.ResourcePrefix(space, f.resource), func(row *table.Row) bool {
		if f.like == nil || f.like(row, u) {
			n++
		}
		return n < f.most
	})
	if n < f.most {
		return errs
	}
	return append(errs, field.Forbidden(field.NewPath("metadata", "name"), fmt.Sprintf("%s has %d, and can't have more", f.what, n)))
}

// fewBindings applies maxBindings to a space.
func fewBindings(t *table.Table, main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
	return few{main, t, maxBindings, key.APIBindings, nil, "the space"}
}

// fewViews applies maxViews to an export.
func fewViews(t *table.Table, main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
	same := func(row *table.Row, obj *unstructured.Unstructured) bool {
		export, _, _ := unstructured.NestedString(obj.Object, "spec", "export")
		return gjson.GetBytes(row.Value, "spec.export").String() == export
	}
	return few{main, t, maxViews, key.APIExportViews, same, "the APIExport"}
}
