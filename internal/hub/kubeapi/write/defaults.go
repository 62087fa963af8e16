package write

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/etcd3"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// checkDefaults refuses an object that has no defaults since it would become too large by them. An
// object that was so before, since its CRD has got defaults, can still be changed: old is nil for
// a new object.
func checkDefaults(kind *kinds.Kind, obj, old runtime.Object) error {
	if kind.Custom == nil {
		return nil
	}
	if old != nil && kind.Custom.CheckDefaults(old) != nil {
		return nil //nolint:nilerr // the error is of the object before, which has to stay changeable
	}
	return kind.Custom.CheckDefaults(obj)
}

// withDefaults is an update that checkDefaults refuses.
func withDefaults(kind *kinds.Kind, info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	if kind.Custom == nil {
		return info
	}
	return rest.WrapUpdatedObjectInfo(info, func(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
		if u, ok := old.(*unstructured.Unstructured); ok && u.GetUID() == "" {
			old = nil // the update creates the object
		}
		return obj, checkDefaults(kind, obj, old)
	})
}

// maxListedDefaults is how many bytes defaults may add to all objects that are deleted at once:
// all of them are in memory.
const maxListedDefaults = 64 << 20

type listedDefaults struct{}

// countingDefaults has the defaults of all objects that are listed counted.
func countingDefaults(ctx context.Context) context.Context {
	return context.WithValue(ctx, listedDefaults{}, new(atomic.Int64))
}

// countingDecoder decodes lists within maxListedDefaults.
type countingDecoder struct{ etcd3.Decoder }

// DecodeListItem implements etcd3.Decoder.
func (d countingDecoder) DecodeListItem(ctx context.Context, data []byte, rev uint64, newItem func() runtime.Object) (runtime.Object, error) {
	obj, err := d.Decoder.DecodeListItem(ctx, data, rev, newItem)
	u, ok := obj.(*unstructured.Unstructured)
	added, counts := ctx.Value(listedDefaults{}).(*atomic.Int64)
	if err != nil || !ok || !counts {
		return obj, err
	}
	if size := schemacost.Size(u.Object) - len(data); size > 0 && added.Add(int64(size)) > maxListedDefaults {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"defaults of the CRD add more than %d bytes to the objects of the list: delete fewer at once, with limit or a selector", maxListedDefaults))
	}
	return obj, nil
}
