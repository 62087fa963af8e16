package controllers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fieldset"
)

// isReturned reports whether a row's status came from a location.
func isReturned(row *table.Row) bool {
	return bytes.Contains(row.Value, []byte(placement.StatusManager)) &&
		gjson.GetBytes(row.Value, `metadata.managedFields.#(manager=="`+placement.StatusManager+`")`).Exists()
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
	theirs, _ := fieldset.Select(map[string]any{"status": status}, fieldset.Whole(all)).(map[string]any)
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
