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
	// maxBindings is how many APIBindings a space may have: what one changes is found by
	// looking at all of them.
	maxBindings = 128
	// maxViews is how many APIExportViews an export may have: each object of the export is in
	// each of them, and a write of it costs as much as there are.
	maxViews = 16
)

// counted writes objects of which there are only so many: while one is created, no other of
// the space is, and all that were are known.
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

// few is a strategy by which no more are created once there are so many.
type few struct {
	rest.RESTCreateUpdateStrategy
	server *Server
	most   int
	// resource is that of the objects, and like says which of them count; nil: all.
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
	f.server.config.Table.Snapshot().Ascend(key.ResourcePrefix(space, f.resource), func(row *table.Row) bool {
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

// fewBindings allows a space maxBindings.
func (s *Server) fewBindings(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
	return few{main, s, maxBindings, key.APIBindings, nil, "the space"}
}

// fewViews allows an export maxViews.
func (s *Server) fewViews(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
	same := func(row *table.Row, obj *unstructured.Unstructured) bool {
		export, _, _ := unstructured.NestedString(obj.Object, "spec", "export")
		return gjson.GetBytes(row.Value, "spec.export").String() == export
	}
	return few{main, s, maxViews, key.APIExportViews, same, "the APIExport"}
}
