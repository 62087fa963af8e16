package controllers

import (
	"bytes"
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// returners is how many statuses are returned at the same time. They are of different
// objects, and what waits for the log is most of it.
const returners = 8

// returner gives objects the statuses that come back from their locations.
type returner struct {
	*Controllers
	pace  *pace
	stale staleLocations
}

// returned has objects given the statuses that come back, as Placements ask for it, and has
// these cleared when that ends.
func (c *Controllers) returned() *controller {
	reports, objects := key.Reports.Prefix(), key.Objects.Prefix()
	spaces, locations := key.ResourcePrefix(key.Root, key.Spaces), key.ResourcePrefix(key.Root, key.Locations)
	r := &returner{Controllers: c, pace: newPace(c.config.Now)}
	one := c.controller("returned status", r.paced,
		c.follow(source{table.PrefixTopic(reports), below(reports), func(ch table.Change) []string {
			r, err := key.ParseReport(ch.Row().Key)
			if err != nil || r.Origin != key.Placed {
				return nil
			}
			return []string{r.Object.Key()}
		}}),
		c.follow(source{table.PrefixTopic(objects), below(objects), func(ch table.Change) []string {
			if !asks(ch.Cur) && !asks(ch.Prev) && (ch.Cur == nil || !isReturned(ch.Cur)) {
				return nil
			}
			return byKey(ch)
		}}),
		c.follow(source{table.PrefixTopic(spaces), below(spaces), r.withOtherLimits}),
		c.follow(source{table.PrefixTopic(locations), below(locations), r.atMovedLocation}))
	one.workers = returners
	return one
}

// withOtherLimits names the objects whose statuses are left out in a space whose limits
// have changed.
func (c *returner) withOtherLimits(ch table.Change) []string {
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

// atMovedLocation names the objects that a location reports which can't be seen any more, or is
// seen again.
func (c *returner) atMovedLocation(ch table.Change) (all []string) {
	if ch.Cur == nil || ch.Prev != nil && objectstate.IsRowStale(ch.Cur) == objectstate.IsRowStale(ch.Prev) {
		return nil // without a row before, changes may have been missed
	}
	l, ok := key.LocationOf(ch.Row().Key)
	if !ok {
		return nil
	}
	c.config.Table.Snapshot().Ascend(key.LocationReports(l), func(row *table.Row) bool {
		if r, err := key.ParseReport(row.Key); err == nil && r.Origin == key.Placed {
			all = append(all, r.Object.Key())
		}
		return true
	})
	return all
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
	way, _ := m.Returns()
	return way != v1alpha1.ReturnStatusNone
}

// isReturned says whether a row's status came from a location.
func isReturned(row *table.Row) bool {
	return bytes.Contains(row.Value, []byte(placement.StatusManager)) &&
		gjson.GetBytes(row.Value, `metadata.managedFields.#(manager=="`+placement.StatusManager+`")`).Exists()
}

// paced is reconcile at the pace of each object.
func (c *returner) paced(ctx context.Context, k string) error {
	if wait := c.pace.wait(k); wait > 0 {
		return againError(wait)
	}
	begun := c.config.Now()
	wrote, err := c.reconcile(ctx, k)
	c.pace.spent(k, c.config.Now().Sub(begun), wrote)
	return err
}

func (c *returner) reconcile(ctx context.Context, k string) (wrote bool, err error) {
	o, err := key.ParseObject(k)
	if err != nil {
		return false, err
	}
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	// Objects of a space that is being deleted are placed nowhere, and must not be written again.
	if row == nil || row.Meta.Deleting || !c.exists(o.Space) || o.Resource == key.Namespaces || o.Resource == key.CRDs {
		c.config.LeftOut.Forget(o)
		return false, nil
	}
	comes := c.comes(snapshot, o, row)
	if comes.stays {
		c.config.LeftOut.Forget(o)
		return false, nil
	}
	if comes.status == nil {
		c.config.LeftOut.Forget(o)
		return c.clear(ctx, row)
	}
	if same, err := c.sameStatus(row, comes.status); same || err != nil {
		if same {
			c.config.LeftOut.Forget(o)
		}
		return false, err
	}
	try := unreturned.Tried{In: row.In, Row: row.ModRev, Report: comes.reports}
	if c.stillUnfit(k, try) {
		return false, againError(c.config.RoomRetry) // there is no event for room
	}
	size, wrote, err := c.write(ctx, o, row, comes.status)
	limits, why, left := misfit(err)
	if !left {
		if err == nil {
			c.config.LeftOut.Forget(o)
		}
		return wrote, err
	}
	c.config.LeftOut.Note(o, unreturned.Unfit{
		Location: comes.from, Placements: row.In.(*placement.Membership).Asking(), Limits: limits, Why: why, Tried: try, Size: size,
	})
	// An older status in its place would be taken for the current one.
	if wrote, err = c.clear(ctx, row); err != nil && !respond.NoRoom(err) {
		return wrote, err
	}
	return wrote, againError(c.config.RoomRetry)
}

// stillUnfit says, at little cost, whether a status that did not fit still does not.
func (c *returner) stillUnfit(k string, try unreturned.Tried) bool {
	u, ok := c.config.LeftOut.Get(k)
	if !ok || u.Tried != try {
		return false
	}
	if u.Size > write.DefaultObjectBytes {
		return true
	}
	if slices.Contains(u.Limits, v1alpha1.ReasonLogFull) {
		return c.config.Log.Capacity().Usage().Full
	}
	exceeded, err := c.config.Limits.Exceeds(k, u.Size)
	return err == nil && exceeded != nil
}
