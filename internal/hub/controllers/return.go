package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// returners is the number of concurrent returns of status. They concern different objects, and most
// of their time is waiting for the log.
const returners = 8

// returnConfig contains the dependencies of the returnController.
type returnConfig struct {
	Table  *table.Table
	Log    *etcd.Log
	Status *statusWriter
	// Limits are the limits of spaces.
	Limits *quota.Limits
	// Unreturned has the statuses that do not fit.
	Unreturned *unreturned.Index
	// Digest returns the digest of an object as sent to a location.
	Digest objectstate.Digest
	// RoomRetry is the interval of retries of writes that failed for lack of room.
	RoomRetry time.Duration
	Now       func() time.Time
}

// returnController writes statuses that return from locations, as Placements request, and clears
// them when no policy requests them any more.
type returnController struct {
	config  returnConfig
	limiter *costLimiter
	merger  *returnMerger
	writer  *returnWriter
}

func newReturnController(config returnConfig) *returnController {
	return &returnController{
		config: config, limiter: newCostLimiter(config.Now), merger: &returnMerger{digest: config.Digest},
		writer: &returnWriter{status: config.Status, limits: config.Limits, now: config.Now},
	}
}

func (c *returnController) watches() []watch {
	reports, objects := key.Reports.Prefix(), key.Objects.Prefix()
	return []watch{follow(c.config.Table, source{prefixTopics(reports, objects), below(reports, objects), c.concerned})}
}

// concerned enqueues the objects whose returned status a change may affect.
func (c *returnController) concerned(ch table.Change) (keys []string) {
	k := ch.Row().Key
	if key.ClassOf(k) == key.Reports {
		return byPlacedReport(ch)
	}
	if returnsStatus(ch.Cur) || returnsStatus(ch.Prev) || ch.Cur != nil && isReturned(ch.Cur) {
		keys = byKey(ch)
	}
	switch s, r, _, _ := key.Split(k); {
	case s != key.Root:
	case r == key.Spaces:
		keys = append(keys, c.withOtherLimits(ch)...)
	case r == key.Locations:
		keys = append(keys, c.atMovedLocation(ch)...)
	}
	return keys
}

// byPlacedReport enqueues the object of a report about a placed object.
func byPlacedReport(ch table.Change) []string {
	r, err := key.ParseReport(ch.Row().Key)
	if err != nil || r.Origin != key.Placed {
		return nil
	}
	return []string{r.Object.Key()}
}

// withOtherLimits enqueues the objects with an unreturned status in a space whose limits have
// changed.
func (c *returnController) withOtherLimits(ch table.Change) []string {
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil || ch.Cur == nil || ch.Prev == nil {
		return nil
	}
	const limits = "spec.limits"
	if gjson.GetBytes(ch.Cur.Value, limits).Raw == gjson.GetBytes(ch.Prev.Value, limits).Raw {
		return nil
	}
	return c.config.Unreturned.In(key.Space(o.Name))
}

// atMovedLocation enqueues the objects that a location reports when its reports become stale or
// current.
func (c *returnController) atMovedLocation(ch table.Change) (all []string) {
	if ch.Cur == nil || ch.Prev == nil || objectstate.IsRowStale(ch.Cur) == objectstate.IsRowStale(ch.Prev) {
		return nil // reports of an existing location are listed themselves
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

// returnsStatus reports whether the policies of a row request its status.
func returnsStatus(row *table.Row) bool {
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

// reconcile runs update with a rate limit for each object.
func (c *returnController) reconcile(ctx context.Context, k string) error {
	if wait := c.limiter.wait(k); wait > 0 {
		return againError(wait)
	}
	begun := c.config.Now()
	wrote, err := c.update(ctx, k)
	c.limiter.spent(k, c.config.Now().Sub(begun), wrote)
	return err
}

// update writes or clears the returned status of an object, and reports whether it wrote the object.
func (c *returnController) update(ctx context.Context, k string) (wrote bool, err error) {
	o, err := key.ParseObject(k)
	if err != nil {
		return false, err
	}
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	// Objects of a space that is being deleted are not placed and must not be written again.
	if row == nil || row.Meta.Deleting || !write.Exists(c.config.Table, o.Space) || o.Resource == key.Namespaces || o.Resource == key.CRDs {
		c.config.Unreturned.Forget(o)
		return false, nil
	}
	returnable := c.merger.returnable(snapshot, o, row)
	if returnable.stays {
		c.config.Unreturned.Forget(o)
		return false, nil
	}
	if returnable.status == nil {
		c.config.Unreturned.Forget(o)
		return c.writer.clear(ctx, row)
	}
	if same, err := c.writer.sameStatus(row, returnable.status); same || err != nil {
		if same {
			c.config.Unreturned.Forget(o)
		}
		return false, err
	}
	try := unreturned.Tried{In: row.In, Row: row.ModRev, Report: returnable.reports}
	if c.stillUnfit(k, try) {
		return false, againError(c.config.RoomRetry) // no event reports free room
	}
	size, wrote, err := c.writer.write(ctx, o, row, returnable.status)
	limits, why, left := misfit(err)
	if !left {
		if err == nil {
			c.config.Unreturned.Forget(o)
		}
		return wrote, err
	}
	c.config.Unreturned.Add(o, unreturned.Unfit{
		Location: returnable.from, Placements: row.In.(*placement.Membership).Asking(), Limits: limits, Why: why, Tried: try, Size: size,
	})
	// An older status in its place would be mistaken for the current one.
	if wrote, err = c.writer.clear(ctx, row); err != nil && !respond.NoRoom(err) {
		return wrote, err
	}
	return wrote, againError(c.config.RoomRetry)
}

// stillUnfit reports, at little cost, whether a status that did not fit still does not.
func (c *returnController) stillUnfit(k string, try unreturned.Tried) bool {
	u, ok := c.config.Unreturned.Get(k)
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
