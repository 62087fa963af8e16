package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/leftout"
	"orrery.dev/orrery/internal/limits"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// statusManager is the field manager of returned statuses. Its entry in managedFields
// tells them from statuses that users wrote.
const statusManager = "orrery-status"

// returned copies the status of objects that are at exactly one location to their
// source, for Placements that ask for it, and clears it when that ends.
func (c *Controllers) returned() *controller {
	reports, objects, spaces := key.Reports.Prefix(), key.Objects.Prefix(), key.ResourcePrefix(key.Root, key.Spaces)
	return c.controller("returned status", c.reconcileReturn,
		c.follow(source{table.Under(reports), below(reports), func(ch table.Change) []string {
			r, err := key.ParseReport(ch.Row().Key)
			if err != nil || r.Origin != key.Placed {
				return nil
			}
			return []string{r.Object.Key()}
		}}),
		c.follow(source{table.Under(objects), below(objects), func(ch table.Change) []string {
			if !asks(ch.Cur) && !asks(ch.Prev) && (ch.Cur == nil || !isReturned(ch.Cur)) {
				return nil
			}
			return byKey(ch)
		}}),
		c.follow(source{table.Under(spaces), below(spaces), c.withOtherLimits}))
}

// withOtherLimits names the objects whose statuses are left out in a space whose limits
// have changed.
func (c *Controllers) withOtherLimits(ch table.Change) []string {
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil || ch.Cur == nil || ch.Prev == nil {
		return nil
	}
	const limits = "spec.limits"
	if gjson.GetBytes(ch.Cur.Value, limits).Raw == gjson.GetBytes(ch.Prev.Value, limits).Raw {
		return nil
	}
	return c.config.LeftOut.In(key.Space(o.Name))
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

// isReturned says whether a row's status came from a location.
func isReturned(row *table.Row) bool {
	return bytes.Contains(row.Value, []byte(statusManager)) &&
		gjson.GetBytes(row.Value, `metadata.managedFields.#(manager=="`+statusManager+`")`).Exists()
}

func (c *Controllers) reconcileReturn(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	// Objects of a space that is being deleted are placed nowhere, and must not be written again.
	if row == nil || row.Meta.Deleting || !c.exists(o.Space) || o.Resource == key.Namespaces || o.Resource == key.CRDs {
		c.config.LeftOut.Forget(o)
		return nil
	}
	status, report := json.RawMessage(nil), int64(0)
	if asks(row) {
		location, _ := row.In.(*placement.Membership).StatusFrom()
		var known bool
		if status, report, known = c.reportedStatus(snapshot, o, row, location); location != "" && !known {
			c.config.LeftOut.Forget(o)
			return nil // not reported yet: the status in the space stays
		}
	}
	if status == nil || isReturned(row) && sameJSON(status, []byte(gjson.GetBytes(row.Value, "status").Raw)) {
		c.config.LeftOut.Forget(o)
		if status != nil {
			return nil
		}
		return c.clearReturned(ctx, row)
	}
	try := leftout.Tried{In: row.In, Row: row.ModRev, Report: report}
	if c.stillUnfit(k, try) {
		return againError(c.config.RoomRetry) // there is no event for room
	}
	size, err := c.writeReturned(ctx, o, row, status)
	limits, why, left := misfit(err)
	if !left {
		if err == nil {
			c.config.LeftOut.Forget(o)
		}
		return err
	}
	location, placements := askers(row)
	c.config.LeftOut.Note(o, leftout.Unfit{Location: location, Placements: placements, Limits: limits, Why: why, Tried: try, Size: size})
	// An older status in its place would be taken for the current one.
	if err := c.clearReturned(ctx, row); err != nil && !respond.NoRoom(err) {
		return err
	}
	return againError(c.config.RoomRetry)
}

// askers are the Placements that ask for the status of a row, and the location that it is
// from.
func askers(row *table.Row) (location key.Location, placements []key.PlacementRef) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return "", nil
	}
	location, _ = m.StatusFrom()
	for _, s := range m.Sources() {
		if s.Placement != "" && s.Selects(location) && s.PolicyAt(location).ReturnStatus {
			placements = append(placements, s.Placement)
		}
	}
	return location, placements
}

// clearReturned removes a status that came from a location, if there is one.
func (c *Controllers) clearReturned(ctx context.Context, row *table.Row) error {
	if !isReturned(row) {
		return nil
	}
	object, err := markReturned(row.Value, false, "", time.Time{})
	if err != nil {
		return fmt.Errorf("unmark the status of %q: %w", row.Key, err)
	}
	return c.replaceStatus(ctx, row, object, nil)
}

// writeReturned writes a status that came from a location, if it fits. size is how
// large the object is with it.
func (c *Controllers) writeReturned(ctx context.Context, o key.Object, row *table.Row, status json.RawMessage) (size int, err error) {
	object, err := markReturned(row.Value, true, c.apiVersion(o), c.config.Now())
	if err != nil {
		return 0, fmt.Errorf("mark the status of %q: %w", row.Key, err)
	}
	value, err := c.withStatus(row.Key, object, status)
	if err != nil {
		return 0, err
	}
	if bytes.Equal(value, row.Value) {
		return len(value), nil
	}
	need := store.Upkeep
	if len(value) > len(row.Value) { // to the log it is growth, as reports are
		need = store.Growth
		if len(value) > space.DefaultObjectBytes {
			return len(value), tooLarge(o.Space, len(value))
		}
	}
	done, err := c.config.Limits.Reserve(row.Key, value, true)
	if err != nil {
		return len(value), err
	}
	rev, ok, err := c.putRoom(ctx, need, row.Key, value, row.ModRev)
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

// stillUnfit says, at little cost, whether a status that did not fit still does not.
func (c *Controllers) stillUnfit(k string, try leftout.Tried) bool {
	u, ok := c.config.LeftOut.Get(k)
	if !ok || u.Tried != try {
		return false
	}
	if u.Size > space.DefaultObjectBytes {
		return true
	}
	if slices.Contains(u.Limits, v1alpha1.ReasonLogFull) {
		return c.config.Log.Usage().Full
	}
	exceeded, err := c.config.Limits.Exceeds(k, u.Size)
	return err == nil && exceeded != nil
}

// reportedStatus is the status that a location reports of the current object, and the
// revision of the report. A status that the report leaves out for its size is known, and
// nil.
func (c *Controllers) reportedStatus(state table.Reader, o key.Object, row *table.Row, l key.Location) (status json.RawMessage, rev int64, known bool) {
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

func (c *Controllers) apiVersion(o key.Object) string {
	// An error concerns a CRD; what it defines is not found below then.
	catalog, _ := c.config.Kinds.Catalog(o.Space, c.config.Table.Snapshot())
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

// misfit says why a write of a returned status was refused, if that is because it does
// not fit.
func misfit(err error) (names []string, why string, ok bool) {
	var exceeded *limits.ExceededError
	switch {
	case errors.As(err, &exceeded):
		return exceeded.Limits, exceeded.Error(), true
	case respond.NoRoom(err):
		return []string{v1alpha1.ReasonLogFull}, err.Error(), true
	}
	return nil, "", false
}

// tooLarge says that an object with its status would be larger than any may be.
func tooLarge(s key.Space, size int) error {
	return &limits.ExceededError{
		Space: s, Limits: []string{"objectBytes"},
		Text: fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, space.DefaultObjectBytes),
	}
}
