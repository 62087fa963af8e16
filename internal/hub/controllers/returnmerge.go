package controllers

import (
	"cmp"
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

// returnMerger computes returned statuses from reports.
type returnMerger struct {
	// digest returns the digest of an object as sent to a location.
	digest objectstate.Digest
	stale  staleLocations
}

// returnable is the returned status of an object.
type returnable struct {
	// status is nil if there is none. Then an earlier returned status is cleared, unless stays is
	// true: no location has reported anything that would replace it.
	status json.RawMessage
	stays  bool
	// from is the location, if the status is that of a single one.
	from key.Location
	// reports identifies the reports used: it is the sum of their revisions.
	reports int64
}

// returnable computes the returned status of a row's object from the reports in a state.
func (c *returnMerger) returnable(state table.Reader, o key.Object, row *table.Row) (all returnable) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return all
	}
	way, from := m.Returns()
	if way == v1alpha1.ReturnStatusNone || len(from) == 0 {
		return all
	}
	if way == v1alpha1.ReturnStatusRollup {
		contributions, reports, known := c.partsOf(state, o, row, m, from)
		if !known && !isReturned(row) {
			return returnable{stays: true} // no location has reported the object yet
		}
		if status, ok := rollup.Merge(o.Resource, row.Value, contributions); ok {
			return returnable{status: status, reports: reports}
		}
	}
	if len(from) != 1 {
		return all
	}
	return c.single(state, o, row, m, from[0])
}

// single returns the status that a location reports of the current object, unless it describes
// another spec. A status that the report omits for its size is known, and nil.
func (c *returnMerger) single(state table.Reader, o key.Object, row *table.Row, m *placement.Membership, l key.Location) returnable {
	report := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	place, ok := m.Place(l)
	if report == nil || !ok {
		return returnable{from: l, stays: true}
	}
	value := report.Report()
	var r wire.Report
	if err := json.Unmarshal(value, &r); err != nil || r.UID != row.Meta.UID {
		return returnable{from: l, stays: true}
	}
	r = r.Fit() // an older hub may have kept what does not fit
	contribution, _ := c.partOf(row, place, value, c.stale.isStale(state, l))
	stays := len(r.Status) == 0 && r.StatusBytes == 0
	if stays && isReturned(row) {
		stored := gjson.GetBytes(row.Value, "status").Raw
		if contribution.Sound { // the object was created again and has no status yet, so that the marks of the last status are cleared
			stays = !strings.Contains(stored, `"`+rollup.ReasonNotEverywhere+`"`)
		} else { // the object at the location no longer exists, so that its last status is not current
			contribution.Status, stays = json.RawMessage(stored), stored == ""
		}
	}
	return returnable{status: rollup.Alone(o.Resource, row.Value, contribution), stays: stays, from: l, reports: report.ModRev}
}

// partsOf returns the contributions of some locations to a Rollup. known reports whether any of
// them has reported the object.
func (c *returnMerger) partsOf(
	state table.Reader, o key.Object, row *table.Row, m *placement.Membership, from []key.Location,
) (contributions []rollup.Report, reports int64, known bool) {
	contributions = make([]rollup.Report, 0, len(from))
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
		contribution, isKnown := c.partOf(row, place, value, c.stale.isStale(state, l))
		known = known || isKnown
		contributions = append(contributions, contribution)
	}
	return contributions, reports, known
}

// partOf returns the contribution of a location from its report, which may be nil. stale reports
// whether the report may be old; known whether it describes the object.
func (c *returnMerger) partOf(row *table.Row, place placement.Place, report []byte, stale bool) (contribution rollup.Report, known bool) {
	state := objectstate.Assigned(c.digest, row, place, report, stale)
	contribution = rollup.Report{Location: place.Location, Why: cmp.Or(state.Reason, string(state.State)), Since: state.Since, Stale: state.Stale}
	if state.Message != "" {
		contribution.Why += ": " + state.Message
	}
	var r wire.Report
	if report == nil || json.Unmarshal(report, &r) != nil || r.UID != row.Meta.UID {
		return contribution, false
	}
	r = r.Fit() // an older hub may have kept what does not fit
	contribution.Generation, contribution.Wanted, contribution.Status, contribution.Health = r.Generation, r.Wanted, r.Status, r.Health
	if state.Health != "" { // KindRules may make it worse
		contribution.Health = state.Health
	}
	contribution.HealthNote, contribution.IsDiagnosed = state.HealthNote, r.Diagnosis != "" || contribution.Health != r.Health
	contribution.Behind = state.State == objectstate.Pending && r.State == wire.Applied
	contribution.Sound = (state.State == wire.Applied || contribution.Behind) && r.StatusBytes == 0
	if contribution.Sound {
		contribution.Why, contribution.Since = "", ""
	}
	return contribution, true
}
