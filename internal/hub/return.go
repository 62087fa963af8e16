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

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/store"
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
	reports, objects, spaces := string(key.Reports)+"/", string(key.Objects)+"/", key.ResourcePrefix(key.Root, key.Spaces)
	return c.run(ctx,
		source{table.Under(reports), below(reports), func(ch table.Change) []string {
			r, err := key.ParseReport(ch.Row().Key)
			if err != nil || r.Origin != key.Placed {
				return nil
			}
			return []string{r.Object.Key()}
		}},
		source{table.Under(objects), below(objects), func(ch table.Change) []string {
			if !asks(ch.Cur) && !asks(ch.Prev) && (ch.Cur == nil || !returned(ch.Cur)) {
				return nil
			}
			return byKey(ch)
		}},
		source{table.Under(spaces), below(spaces), h.withOtherLimits})
}

// withOtherLimits are the objects of a space whose limits change of which something is
// left out.
func (h *Hub) withOtherLimits(ch table.Change) []string {
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil || ch.Cur == nil || ch.Prev == nil {
		return nil
	}
	const limits = "spec.limits"
	if gjson.GetBytes(ch.Cur.Value, limits).Raw == gjson.GetBytes(ch.Prev.Value, limits).Raw {
		return nil
	}
	return h.leftOut.in(key.Space(o.Name))
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
		h.leftOut.forget(o)
		return nil
	}
	status, report := json.RawMessage(nil), int64(0)
	if asks(row) {
		location, _ := row.In.(*placement.Membership).StatusFrom()
		var known bool
		if status, report, known = h.reportedStatus(snapshot, o, row, key.Location(location)); location != "" && !known {
			h.leftOut.forget(o)
			return nil // not reported yet: what is there stays
		}
	}
	if status == nil || returned(row) && sameJSON(status, []byte(gjson.GetBytes(row.Value, "status").Raw)) {
		h.leftOut.forget(o)
		if status != nil {
			return nil
		}
		return h.clearReturned(ctx, row)
	}
	try := tried{row.In, row.ModRev, report}
	if h.stillUnfit(k, try) {
		return errSlowly
	}
	size, err := h.writeReturned(ctx, o, row, status)
	limits, why, left := misfit(err)
	if !left {
		if err == nil {
			h.leftOut.forget(o)
		}
		return err
	}
	location, placements := askers(row)
	h.leftOut.note(o, unfit{location: location, placements: placements, limits: limits, why: why, tried: try, size: size})
	// An older status in its place would be taken for what is.
	if err := h.clearReturned(ctx, row); err != nil && !respond.NoRoom(err) {
		return err
	}
	return errSlowly
}

// askers are the placements that ask for the status of a row, and where it is from.
func askers(row *table.Row) (location string, placements []string) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return "", nil
	}
	location, _ = m.StatusFrom()
	for _, s := range m.Sources() {
		if s.Placement != "" && s.Policy.ReturnStatus && s.Selects(location) {
			placements = append(placements, s.Placement)
		}
	}
	return location, placements
}

// clearReturned removes a status that came from a location, if there is one.
func (h *Hub) clearReturned(ctx context.Context, row *table.Row) error {
	if !returned(row) {
		return nil
	}
	object, err := markReturned(row.Value, false, "", time.Time{})
	if err != nil {
		return fmt.Errorf("unmark the status of %q: %w", row.Key, err)
	}
	return h.replaceStatus(ctx, row, object, nil)
}

// writeReturned writes a status that came from a location, if it fits. size is how
// large the object is with it.
func (h *Hub) writeReturned(ctx context.Context, o key.Object, row *table.Row, status json.RawMessage) (size int, err error) {
	object, err := markReturned(row.Value, true, h.apiVersion(o), h.config.Now())
	if err != nil {
		return 0, fmt.Errorf("mark the status of %q: %w", row.Key, err)
	}
	value, err := h.withStatus(row.Key, object, status)
	if err != nil {
		return 0, err
	}
	if bytes.Equal(value, row.Value) {
		return len(value), nil
	}
	need := store.Upkeep
	if len(value) > len(row.Value) { // it is what locations report
		need = store.Growth
		if len(value) > space.DefaultObjectBytes {
			return len(value), tooLarge(o.Space, len(value))
		}
	}
	done, err := h.spaces.Reserve(row.Key, value)
	if err != nil {
		return len(value), err
	}
	rev, ok, err := h.putRoom(ctx, need, row.Key, value, row.ModRev)
	if err == nil && ok {
		done(rev)
		return len(value), nil
	}
	done(0)
	if err == nil {
		err = errAgain
	}
	return len(value), err
}

// stillUnfit says, at little cost, whether what did not fit still does not.
func (h *Hub) stillUnfit(k string, try tried) bool {
	u, ok := h.leftOut.get(k)
	if !ok || u.tried != try {
		return false
	}
	if u.size > space.DefaultObjectBytes {
		return true
	}
	if slices.Contains(u.limits, v1alpha1.ReasonLogFull) {
		return h.log.Usage().Full
	}
	exceeded, err := h.spaces.Exceeds(k, u.size)
	return err == nil && exceeded != nil
}

// reportedStatus is the status that a location reports of the object as it is
// now, and the revision of the report. One that was left out for its size is known to
// be none.
func (h *Hub) reportedStatus(state table.Reader, o key.Object, row *table.Row, l key.Location) (status json.RawMessage, rev int64, known bool) {
	if l == "" {
		return nil, 0, false
	}
	report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	if report == nil {
		return nil, 0, false
	}
	var r wire.Report
	if err := json.Unmarshal(report.Value, &r); err != nil || r.UID != row.Meta.UID {
		return nil, 0, false
	}
	return r.Status, report.ModRev, len(r.Status) > 0 || r.StatusBytes > 0
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
