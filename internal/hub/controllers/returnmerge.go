package controllers

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// comes is what comes back of an object's status.
type comes struct {
	// status is nil if there is none, and what came back before is to be cleared, unless stays
	// says that nothing is known that would replace it.
	status json.RawMessage
	stays  bool
	// from is the location, if it is the status of one.
	from key.Location
	// reports differs with the reports that it is made of: the sum of their revisions.
	reports int64
}

// comes is what comes back of a row's object by what is reported in a state.
func (c *returner) comes(state table.Reader, o key.Object, row *table.Row) (all comes) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return all
	}
	way, from := m.Returns()
	if way == v1alpha1.ReturnStatusNone || len(from) == 0 {
		return all
	}
	if way == v1alpha1.ReturnStatusRollup {
		parts, reports, known := c.partsOf(state, o, row, m, from)
		if !known && !isReturned(row) {
			return comes{stays: true} // no location has said anything yet
		}
		if status, ok := rollup.Merge(o.Resource, row.Value, parts); ok {
			return comes{status: status, reports: reports}
		}
	}
	if len(from) != 1 {
		return all
	}
	return c.single(state, o, row, m, from[0])
}

// single is the status that a location reports of the current object, as it is, unless it
// is not about the current spec. One that the report leaves out for its size is known,
// and nil.
func (c *returner) single(state table.Reader, o key.Object, row *table.Row, m *placement.Membership, l key.Location) comes {
	report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	place, ok := m.Place(l)
	if report == nil || !ok {
		return comes{from: l, stays: true}
	}
	value := report.Report()
	var r wire.Report
	if err := json.Unmarshal(value, &r); err != nil || r.UID != row.Meta.UID {
		return comes{from: l, stays: true}
	}
	r = r.Fit() // an older hub may have kept what does not fit
	part, _ := c.partOf(row, place, value, c.stale.isStale(state, l))
	stays := len(r.Status) == 0 && r.StatusBytes == 0
	if stays && isReturned(row) {
		stored := gjson.GetBytes(row.Value, "status").Raw
		if part.Sound { // the object was made anew and has no status, so that the marks of the last one are cleared
			stays = !strings.Contains(stored, `"`+rollup.ReasonNotEverywhere+`"`)
		} else { // the object at the location is gone, so that its last status is not the present one
			part.Status, stays = json.RawMessage(stored), stored == ""
		}
	}
	return comes{status: rollup.Alone(o.Resource, row.Value, part), stays: stays, from: l, reports: report.ModRev}
}

// partsOf is what each of some locations contributes to a Rollup; known says that any of
// them has reported the object.
func (c *returner) partsOf(
	state table.Reader, o key.Object, row *table.Row, m *placement.Membership, from []key.Location,
) (parts []rollup.Part, reports int64, known bool) {
	parts = make([]rollup.Part, 0, len(from))
	for _, l := range from {
		place, ok := m.Place(l)
		if !ok {
			continue
		}
		var value []byte
		if report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key()); report != nil {
			value = report.Report()
			reports += report.ModRev
		}
		part, isKnown := c.partOf(row, place, value, c.stale.isStale(state, l))
		known = known || isKnown
		parts = append(parts, part)
	}
	return parts, reports, known
}

// partOf is what a location contributes by its report, nil if there is none. stale reports that the
// report may be old, and known that it is about the object.
func (c *returner) partOf(row *table.Row, place placement.Place, report []byte, stale bool) (part rollup.Part, known bool) {
	verdict := objectstate.Assigned(c.config.Digest, row, place, report, stale)
	part = rollup.Part{Location: place.Location, Why: verdict.Reason, Since: verdict.Since, Stale: verdict.Stale}
	if part.Why == "" {
		part.Why = string(verdict.State)
	}
	var r wire.Report
	if report == nil || json.Unmarshal(report, &r) != nil || r.UID != row.Meta.UID {
		return part, false
	}
	r = r.Fit() // an older hub may have kept what does not fit
	part.Generation, part.Wanted, part.Status, part.Health = r.Generation, r.Wanted, r.Status, r.Health
	part.Behind = verdict.State == objectstate.Pending && r.State == wire.Applied
	part.Sound = (verdict.State == wire.Applied || part.Behind) && r.StatusBytes == 0
	if part.Sound {
		part.Why, part.Since = "", ""
	}
	return part, true
}
