package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/lib/fieldset"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// sameStatus reports whether a row has a status that is equivalent to another as it would be
// stored. Then there is nothing to write, even if another client has written it.
func (c *returner) sameStatus(row *table.Row, status json.RawMessage) (bool, error) {
	current := []byte(gjson.GetBytes(row.Value, "status").Raw)
	if sameJSON(status, current) {
		return true, nil
	}
	value, err := c.withStatus(row, row.Value, status)
	if err != nil {
		return false, err
	}
	stored := []byte(gjson.GetBytes(value, "status").Raw)
	return bytes.Equal(stored, current) || sameJSON(stored, current), nil
}

// clear removes a returned status, if there is one. Fields that other clients in the space have
// written remain.
func (c *returner) clear(ctx context.Context, row *table.Row) (wrote bool, err error) {
	if !isReturned(row) {
		return false, nil
	}
	object, err := markReturned(row.Value, false, "", time.Time{})
	if err != nil {
		return false, fmt.Errorf("unmark the status of %q: %w", row.Key, err)
	}
	theirs, err := writtenHere(row.Value)
	if err != nil {
		return false, fmt.Errorf("find the fields of the status of %q that clients in the space have written: %w", row.Key, err)
	}
	err = c.replaceStatus(ctx, row, object, theirs)
	return err == nil, err
}

// writtenHere returns the fields of an object's returned status that clients in the space have
// written, by managedFields; nil if there are none. A condition counts as a whole if they have
// written any field of it.
func writtenHere(object []byte) ([]byte, error) {
	managed, err := managedFields(object)
	if err != nil {
		return nil, err
	}
	all := fieldpath.NewSet()
	for _, f := range managed {
		if f.Manager == placement.StatusManager || f.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("decode managedFields: %w", err)
		}
		all = all.Union(set)
	}
	raw := gjson.GetBytes(object, "status")
	if !raw.Exists() {
		return nil, nil
	}
	var status any
	if err := utiljson.Unmarshal([]byte(raw.Raw), &status); err != nil {
		return nil, fmt.Errorf("decode the status: %w", err)
	}
	theirs, _ := fieldset.Of(map[string]any{"status": status}, fieldset.Whole(all)).(map[string]any)
	if theirs["status"] == nil {
		return nil, nil
	}
	return json.Marshal(theirs["status"])
}

// managedFields decodes the managed fields of an object.
func managedFields(object []byte) (fields []metav1.ManagedFieldsEntry, err error) {
	if raw := gjson.GetBytes(object, "metadata.managedFields"); raw.Exists() {
		if err := json.Unmarshal([]byte(raw.Raw), &fields); err != nil {
			return nil, fmt.Errorf("decode managedFields: %w", err)
		}
	}
	return fields, nil
}

// write writes a returned status, if it fits. size is the size of the object with it.
func (c *returner) write(ctx context.Context, o key.Object, row *table.Row, status json.RawMessage) (size int, wrote bool, err error) {
	object, err := markReturned(row.Value, true, c.apiVersion(o), c.config.Now())
	if err != nil {
		return 0, false, fmt.Errorf("mark the status of %q: %w", row.Key, err)
	}
	value, err := c.withStatus(row, object, status)
	if err != nil {
		return 0, false, err
	}
	need := etcd.Upkeep
	if len(value) > len(row.Value) { // growth counts like that of reports
		need = etcd.Growth
		if len(value) > write.DefaultObjectBytes {
			return len(value), false, tooLarge(o.Space, len(value))
		}
	}
	done, err := c.config.Limits.Reserve(row.Key, value, quota.BySpace) // returned statuses may use room that is reserved for others
	if err != nil {
		return len(value), false, err
	}
	rev, ok, err := c.putRoom(ctx, need, row.Key, value, row.ModRev)
	if err == nil && ok {
		done(rev)
		return len(value), true, nil
	}
	done(0)
	if err == nil {
		err = errAgain
	}
	return len(value), false, err
}

func (c *returner) apiVersion(o key.Object) string {
	// An error concerns a CRD; its resources are then not found below.
	catalog, _ := c.config.Kinds.Catalog(o.Space, c.config.Table.Snapshot())
	if kind, ok := catalog.ForStorage(o.Resource); ok {
		return kind.Storage.String()
	}
	return ""
}

// markReturned adds, or removes, the entry of the status manager.
func markReturned(object []byte, returned bool, apiVersion string, now time.Time) ([]byte, error) {
	fields, err := managedFields(object)
	if err != nil {
		return nil, err
	}
	fields = slices.DeleteFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == placement.StatusManager })
	if returned {
		stamp := metav1.NewTime(now.UTC().Truncate(time.Second))
		owned := &metav1.FieldsV1{}
		owned.SetRawString(`{"f:status":{}}`)
		fields = append(fields, metav1.ManagedFieldsEntry{
			Manager: placement.StatusManager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			APIVersion: apiVersion, Time: &stamp, FieldsType: "FieldsV1",
			FieldsV1: owned,
		})
	}
	if len(fields) == 0 {
		return sjson.DeleteBytes(bytes.Clone(object), "metadata.managedFields")
	}
	return sjson.SetBytes(bytes.Clone(object), "metadata.managedFields", fields)
}

// sameJSON reports whether two JSON texts are equivalent.
func sameJSON(a, b []byte) bool {
	canonical := func(text []byte) []byte {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return nil
		}
		out, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return out
	}
	x, y := canonical(a), canonical(b)
	return x != nil && bytes.Equal(x, y)
}

// misfit returns the reason why a returned status was refused; ok reports whether that is its size.
func misfit(err error) (names []string, why string, ok bool) {
	var exceeded *quota.ExceededError
	switch {
	case errors.As(err, &exceeded):
		return exceeded.Limits, exceeded.Error(), true
	case respond.NoRoom(err):
		return []string{v1alpha1.ReasonLogFull}, err.Error(), true
	}
	return nil, "", false
}

// tooLarge returns an error for an object that would exceed the size limit with its status.
func tooLarge(s key.Space, size int) error {
	return &quota.ExceededError{
		Space: s, Limits: []string{"objectBytes"},
		Text: fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, write.DefaultObjectBytes),
	}
}
