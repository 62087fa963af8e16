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

// checkDefaults refuses an object that becomes too large by the defaults of its CRD. old is nil for a
// new object. If the CRD got its defaults after the object was stored, the object may exceed the
// limit, and can still be changed.
func checkDefaults(kind *kinds.Kind, obj, old runtime.Object) error {
	if kind.Custom == nil {
		return nil
	}
	if old != nil && kind.Custom.CheckDefaults(old) != nil {
		return nil //nolint:nilerr // the stored object exceeds the limit already
	}
	return kind.Custom.CheckDefaults(obj)
}

// withDefaults adds checkDefaults to an update.
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

// maxListedDefaults limits the bytes that defaults add to the objects of one deletecollection, all of
// which are in memory.
const maxListedDefaults = 64 << 20

type listedDefaults struct{}

// countingDefaults makes countingDecoder count the defaults of listed objects.
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
