package controllers

import (
	"bytes"
	"context"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// removalConfig contains the dependencies of the removalController.
type removalConfig struct {
	Table *table.Table
	// Progress has the objects that locations have to remove.
	Progress *progress.Tracker
	// Finish completes the deletion of an object.
	Finish func(context.Context, *table.Row) error
}

// removalController completes the deletion of objects that wait until their locations have removed
// them.
type removalController struct{ config removalConfig }

func (c *removalController) watches() []watch {
	reports, objects := key.Reports.Prefix(), key.Objects.Prefix()
	return []watch{follow(c.config.Table, source{prefixTopics(objects, reports), below(objects), func(ch table.Change) []string {
		switch {
		case key.ClassOf(ch.Row().Key) == key.Reports:
			return byReportedRemoval(ch)
		case write.KeptUntilRemoved(ch.Cur):
			return byKey(ch)
		}
		return nil
	}})}
}

// byReportedRemoval enqueues the object of a report that may end its removal at a location.
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

// reconcile completes the deletion of an object that no location has to remove any more.
func (c *removalController) reconcile(ctx context.Context, k string) error {
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	if !write.KeptUntilRemoved(row) {
		return nil
	}
	if m, ok := row.In.(*placement.Membership); ok && m != nil && !m.Leaves() {
		return nil // its finalizers keep it at its locations, and its next change enqueues it again
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	remaining, err := c.config.Progress.Unassigned(ctx, o.Path())
	if err != nil {
		return err
	}
	for _, left := range remaining {
		if left.Path == o.Path() && mayHave(snapshot, o, row, left.Location) {
			return nil // its next report enqueues it again
		}
	}
	return c.config.Finish(ctx, row)
}

// mayHave reports whether a location may still have an object that it has to remove. It does not if
// the location does not exist or never had an agent, or if its report shows that the object is gone
// or stays by policy.
func mayHave(state table.Reader, o key.Object, row *table.Row, l key.Location) bool {
	location := state.Get(l.Key())
	if location == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if ok && m.Yields(l) {
		return false // its own object stays
	}
	if report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key()); report != nil {
		return !objectstate.IsFinished(report.Report(), row.Meta.UID)
	}
	return ok && m.Contains(l) && hadAgent(state, l, location)
}

// hadAgent reports whether an agent of a location may ever have received desired objects: by the
// record of its enrolment or by its condition Enrolled.
func hadAgent(state table.Reader, l key.Location, location *table.Row) bool {
	var value []byte
	if row := state.Get(key.Enrolment(l)); row != nil {
		value = row.Value
	}
	r := enroll.ParseRecord(value, location.Meta.UID)
	return r.Enrolled() || r.Issued.Number > 0 || r.Hash != "" || r.Revoked != nil ||
		gjson.GetBytes(location.Value, `status.conditions.#(type=="`+v1alpha1.ConditionEnrolled+`")`).Exists()
}
