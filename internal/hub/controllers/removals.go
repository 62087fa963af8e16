package controllers

import (
	"bytes"
	"context"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// removals ends the wait of objects that are being deleted and wait until their locations
// have removed them.
func (c *Controllers) removals() *controller {
	reports, objects := key.Reports.Prefix(), key.Objects.Prefix()
	none := func(*table.Snapshot, func(*table.Row) bool) {}
	return c.controller("removals", c.reconcileRemoval,
		c.follow(source{table.PrefixTopic(objects), below(objects), func(ch table.Change) []string {
			if !write.KeptUntilRemoved(ch.Cur) {
				return nil
			}
			return byKey(ch)
		}}),
		c.follow(source{table.PrefixTopic(reports), none, byReportedRemoval}))
}

// byReportedRemoval names the object of a report by which a location may have settled it.
func byReportedRemoval(ch table.Change) []string {
	if ch.Cur != nil {
		report := ch.Cur.Report()
		if !bytes.Contains(report, []byte(`"`+wire.Removed+`"`)) && !bytes.Contains(report, []byte(`"`+wire.Orphaned+`"`)) {
			return nil
		}
	}
	r, err := key.ParseReport(ch.Row().Key)
	if err != nil || r.Origin != key.Placed {
		return nil
	}
	return []string{r.Object.Key()}
}

// reconcileRemoval ends the wait of an object of which no location has anything left that
// it is to remove.
func (c *Controllers) reconcileRemoval(ctx context.Context, k string) error {
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	if !write.KeptUntilRemoved(row) {
		return nil
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	for _, left := range c.config.Tally.LeftOf(o.Path()) {
		if left.Path == o.Path() && mayHave(snapshot, o, row, left.Location) {
			return nil // its next report brings another turn, or its end
		}
	}
	return c.config.Spaces.FinishRemoval(ctx, row)
}

// mayHave says whether a location may still have an object that it is to remove: it exists
// and had an agent, and has neither said that nothing is there, nor that what is there
// stays.
func mayHave(state table.Reader, o key.Object, row *table.Row, l key.Location) bool {
	location := state.Get(l.Key())
	if location == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if ok && m.Yields(l) {
		return false // what is there stays
	}
	if report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key()); report != nil {
		return !objectstate.Settled(report.Report(), row.Meta.UID)
	}
	return ok && m.Has(l) && hadAgent(state, l, location)
}

// hadAgent says whether anybody could ever ask what is desired at a location: by its
// enrolment, or since the hub has said so.
func hadAgent(state table.Reader, l key.Location, location *table.Row) bool {
	var value []byte
	if row := state.Get(key.Enrolment(l)); row != nil {
		value = row.Value
	}
	r := enroll.ParseRecord(value, location.Meta.UID)
	return r.Enrolled() || r.Issued.Number > 0 || r.Hash != "" || r.Revoked != nil ||
		gjson.GetBytes(location.Value, `status.conditions.#(type=="`+v1alpha1.ConditionEnrolled+`")`).Exists()
}
