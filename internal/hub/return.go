package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// statusManager is the field manager of statuses that came back from a
// location. Its entry in managedFields tells them from what a user wrote.
const statusManager = "orrery-status"

// returnLoop copies the status of objects that exist at exactly one location
// to their source, for placements that ask for it, and clears it when that
// ends.
func (h *Hub) returnLoop(ctx context.Context) error {
	c := newController("returned status", h.table, h.config.Logger, h.reconcileReturn)
	reports, objects := string(key.Reports)+"/", string(key.Objects)+"/"
	return c.run(ctx,
		source{table.Under(reports), below(reports), func(ch table.Change) []string {
			r, err := key.ParseReport(ch.Row().Key)
			if err != nil || r.Origin != key.Placed {
				return nil
			}
			return []string{r.Object.Key()}
		}},
		source{table.Under(objects), below(objects), func(ch table.Change) []string {
			if ch.Cur == nil || !asks(ch.Cur) && !asks(ch.Prev) && !returned(ch.Cur) {
				return nil
			}
			return byKey(ch)
		}})
}

// asks says whether the policies of a row ask for its status.
func asks(row *table.Row) bool {
	if row == nil || row.In == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return false
	}
	_, asked := m.StatusFrom()
	return asked
}

// returned says whether a row's status came from a location.
func returned(row *table.Row) bool {
	return bytes.Contains(row.Value, []byte(statusManager)) &&
		gjson.GetBytes(row.Value, `metadata.managedFields.#(manager=="`+statusManager+`")`).Exists()
}

func (h *Hub) reconcileReturn(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	snapshot := h.table.Snapshot()
	row := snapshot.Get(k)
	// What is in a space that is being deleted is placed nowhere, and not to be written once more.
	if row == nil || row.Meta.Deleting || !h.spaceExists(o.Space) || o.Resource == key.Namespaces || o.Resource == key.CRDs {
		return nil
	}
	status := json.RawMessage(nil)
	if asks(row) {
		location, _ := row.In.(*placement.Membership).StatusFrom()
		var known bool
		if status, known = h.reportedStatus(snapshot, o, row, key.Location(location)); location != "" && !known {
			return nil // not reported yet: what is there stays
		}
	}
	if status == nil && !returned(row) {
		return nil
	}
	if status != nil && sameJSON(status, []byte(gjson.GetBytes(row.Value, "status").Raw)) && returned(row) {
		return nil
	}
	object, err := markReturned(row.Value, status != nil, h.apiVersion(o), h.config.Now())
	if err != nil {
		return fmt.Errorf("mark the status of %q: %w", k, err)
	}
	return h.replaceStatus(ctx, row, object, status)
}

// reportedStatus is the status that a location reports of the object as it is
// now. One that was left out for its size is known to be none.
func (h *Hub) reportedStatus(state table.Reader, o key.Object, row *table.Row, l key.Location) (status json.RawMessage, known bool) {
	if l == "" {
		return nil, false
	}
	report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	if report == nil {
		return nil, false
	}
	var r wire.Report
	if err := json.Unmarshal(report.Value, &r); err != nil || r.UID != row.Meta.UID {
		return nil, false
	}
	return r.Status, len(r.Status) > 0 || r.StatusBytes > 0
}

func (h *Hub) apiVersion(o key.Object) string {
	// An error concerns a CRD; what it defines is not found below then.
	catalog, _ := h.registry.Catalog(o.Space, h.table.Snapshot())
	if kind, ok := catalog.ForStorage(o.Resource); ok {
		return kind.Storage.String()
	}
	return ""
}

// markReturned adds, or removes, the entry of the status manager.
func markReturned(object []byte, on bool, apiVersion string, now time.Time) ([]byte, error) {
	var fields []metav1.ManagedFieldsEntry
	if raw := gjson.GetBytes(object, "metadata.managedFields"); raw.Exists() {
		if err := json.Unmarshal([]byte(raw.Raw), &fields); err != nil {
			return nil, fmt.Errorf("decode managedFields: %w", err)
		}
	}
	fields = slices.DeleteFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == statusManager })
	if on {
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		owned := &metav1.FieldsV1{}
		owned.SetRawString(`{"f:status":{}}`)
		fields = append(fields, metav1.ManagedFieldsEntry{
			Manager: statusManager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			APIVersion: apiVersion, Time: &at, FieldsType: "FieldsV1",
			FieldsV1: owned,
		})
	}
	if len(fields) == 0 {
		return sjson.DeleteBytes(bytes.Clone(object), "metadata.managedFields")
	}
	return sjson.SetBytes(bytes.Clone(object), "metadata.managedFields", fields)
}

// sameJSON says whether two JSON texts mean the same.
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
