package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
)

// updateStatus writes what status returns of the stored object as its status,
// if that changes anything. If somebody wrote the object meanwhile it returns
// errAgain.
func (h *Hub) updateStatus(ctx context.Context, row *table.Row, status func(object []byte) (any, error)) error {
	now, err := status(row.Value)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the status of %q: %w", row.Key, err)
	}
	return h.replaceStatus(ctx, row, row.Value, encoded)
}

// replaceStatus writes object with a status. A status that would make the object too
// large to be written again by its users is left out.
func (h *Hub) replaceStatus(ctx context.Context, row *table.Row, object []byte, status []byte) error {
	value, err := h.withStatus(row.Key, object, status)
	if err != nil {
		return err
	}
	if bytes.Equal(value, row.Value) {
		return nil
	}
	if len(value) > space.DefaultObjectBytes && len(value) > len(row.Value) {
		h.config.Logger.Warn("status left out: the object would be too large", "key", row.Key, "bytes", len(value), "limit", space.DefaultObjectBytes)
		return nil
	}
	_, ok, err := h.putRoom(ctx, store.Upkeep, row.Key, value, row.ModRev)
	if err == nil && !ok {
		return errAgain
	}
	return err
}

// withStatus is object with a status, in the bytes that the object's own registry
// would have written, so that a user's next apply without a change stays one without
// a change.
func (h *Hub) withStatus(k string, object, status []byte) ([]byte, error) {
	var err error
	if empty := bytes.Equal(status, []byte("{}")) || len(status) == 0; !empty {
		object, err = sjson.SetRawBytes(bytes.Clone(object), "status", status)
	} else if gjson.GetBytes(object, "status").Exists() {
		object, err = sjson.DeleteBytes(bytes.Clone(object), "status")
	}
	if err != nil {
		return nil, fmt.Errorf("set the status of %q: %w", k, err)
	}
	return h.canonical(k, object)
}

// canonical passes an object through its kind's codec.
func (h *Hub) canonical(k string, object []byte) ([]byte, error) {
	o, err := key.ParseObject(k)
	if err != nil {
		return nil, err
	}
	// An error concerns a CRD; what it defines is not found below then.
	catalog, _ := h.registry.Catalog(o.Space, h.table.Snapshot())
	kind, ok := catalog.ForStorage(o.Resource)
	if !ok {
		return nil, fmt.Errorf("no kind for %q", k)
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
