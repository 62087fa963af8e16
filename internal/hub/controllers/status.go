package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/jsonsplice"
	"orrery.dev/orrery/internal/protocol/key"
)

// statusWriter writes statuses of objects. It writes only differences.
type statusWriter struct {
	table *table.Table
	log   *etcd.Log
	// kinds encodes objects.
	kinds  *registry.Registry
	logger *slog.Logger
	now    func() time.Time
}

// condition sets a condition with the given Status, Reason and Message.
func (w *statusWriter) condition(all *[]metav1.Condition, row *table.Row, is metav1.Condition) {
	is.ObservedGeneration = row.Meta.Generation
	is.LastTransitionTime = metav1.NewTime(w.now())
	meta.SetStatusCondition(all, is)
}

// update sets an object's status to the result of the status function for the stored object,
// and writes it if it changes. It returns errAgain if another client wrote the object meanwhile.
func (w *statusWriter) update(ctx context.Context, row *table.Row, status func(object []byte) (any, error)) error {
	now, err := status(row.Value)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the status of %q: %w", row.Key, err)
	}
	return w.replace(ctx, row, row.Value, encoded)
}

// replace writes object with a status. It omits a status that would make the object too large
// for further writes by users.
func (w *statusWriter) replace(ctx context.Context, row *table.Row, object []byte, status []byte) error {
	value, err := w.encode(row, object, status)
	if err != nil {
		return err
	}
	if bytes.Equal(value, row.Value) {
		return nil
	}
	if len(value) > write.DefaultObjectBytes && len(value) > len(row.Value) {
		w.logger.Warn("status left out: the object would be too large", "key", row.Key, "bytes", len(value), "limit", write.DefaultObjectBytes)
		return nil
	}
	_, ok, err := w.put(ctx, etcd.Upkeep, row.Key, value, row.ModRev)
	if err == nil && !ok {
		return errAgain
	}
	return err
}

// encode returns the stored object of a row with a status, and with the managed fields of
// object. Both are encoded like a write by a user, so that a repeated apply changes nothing. All
// other text stays as it is stored: a newer version of the hub may have stored fields that this one
// does not know.
func (w *statusWriter) encode(row *table.Row, object, status []byte) ([]byte, error) {
	k, err := row.Key, error(nil)
	if empty := bytes.Equal(status, []byte("{}")) || len(status) == 0; !empty {
		object, err = sjson.SetRawBytes(bytes.Clone(object), "status", status)
	} else if gjson.GetBytes(object, "status").Exists() {
		object, err = sjson.DeleteBytes(bytes.Clone(object), "status")
	}
	if err != nil {
		return nil, fmt.Errorf("set the status of %q: %w", k, err)
	}
	value, err := w.canonical(k, object)
	if err != nil {
		return nil, err
	}
	const version = "apiVersion"
	if gjson.GetBytes(row.Value, version).String() != gjson.GetBytes(value, version).String() {
		return value, nil // the storage version changes with this write
	}
	if value, err = jsonsplice.Copy(row.Value, value, jsonsplice.Field("status"), jsonsplice.Field("metadata", "managedFields")); err != nil {
		return nil, fmt.Errorf("set the status of %q: %w", k, err)
	}
	return value, nil
}

// errNewer is returned for an object of a version that this hub does not have.
var errNewer = errors.New("a newer hub has stored it in a version that this hub does not know: upgrade this hub")

// canonical passes an object through its kind's codec.
func (w *statusWriter) canonical(k string, object []byte) ([]byte, error) {
	o, err := key.ParseObject(k)
	if err != nil {
		return nil, err
	}
	// An error concerns a CRD; its resources are then not found below.
	catalog, _ := w.kinds.Catalog(o.Space, w.table.Snapshot())
	kind, ok := catalog.ForStorage(o.Resource)
	if !ok {
		return nil, fmt.Errorf("no kind for %q", k)
	}
	if kind.GVK.Group == v1alpha1.GroupVersion.Group && !hasVersion(catalog, kind, gjson.GetBytes(object, "apiVersion").String()) {
		return nil, fmt.Errorf("write the status of %q: %w", k, errNewer)
	}
	decoded, err := runtime.Decode(kind.StorageCodec, object)
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", k, err)
	}
	value, err := runtime.Encode(kind.StorageCodec, decoded)
	if err != nil {
		return nil, fmt.Errorf("encode %q: %w", k, err)
	}
	return value, nil
}

// apiVersion returns the API version in which objects of a kind are stored; "" for an unknown kind.
func (w *statusWriter) apiVersion(o key.Object) string {
	// An error concerns a CRD; its resources are then not found below.
	catalog, _ := w.kinds.Catalog(o.Space, w.table.Snapshot())
	if kind, ok := catalog.ForStorage(o.Resource); ok {
		return kind.Storage.String()
	}
	return ""
}

// hasVersion reports whether a catalog has a kind in an API version, too.
func hasVersion(catalog *kinds.Catalog, kind *kinds.Kind, version string) bool {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return false
	}
	_, ok := catalog.Lookup(gv.WithResource(kind.GVR.Resource))
	return ok
}

// put is Log.Put for an object that the hub writes itself. It fails if the log has no room.
func (w *statusWriter) put(ctx context.Context, need etcd.Need, k string, value []byte, modRev int64) (rev int64, ok bool, err error) {
	landed, err := w.log.Capacity().Admit(ctx, need, len(k)+len(value))
	if err != nil {
		return 0, false, err
	}
	defer landed()
	if rev, ok, err = w.log.Put(ctx, k, value, modRev); errors.Is(err, rpctypes.ErrNoSpace) {
		w.log.Capacity().RefusedByEtcd()
	}
	return rev, ok, err
}
