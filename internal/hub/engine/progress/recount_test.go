package progress

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// recount counts everything anew from the words of the API.
func (m *machine) recount() (map[key.Placement]PlacementCounts, map[key.Location]v1alpha1.Counts) {
	placements, locations, sick := map[key.Placement]PlacementCounts{}, map[key.Location]v1alpha1.Counts{}, map[key.Placement][]v1alpha1.PlacementError{}
	state := m.table.Snapshot()
	state.Ascend("o/", func(row *table.Row) bool {
		in, ok := row.In.(*placement.Membership)
		if !ok {
			return true
		}
		o, err := key.ParseObject(row.Key)
		if err != nil {
			panic(err)
		}
		for _, source := range in.Sources() {
			p := source.Placement.Resolve(o.Space)
			if p.Name == "" {
				continue
			}
			c := placements[p]
			c.Objects++
			left := leftOf(state, o, in)
			c.Left.Leaving, c.Left.Leftovers = c.Left.Leaving+left.Leaving, c.Left.Leftovers+left.Leftovers
			for _, l := range source.Locations() {
				e := m.count(state, o, row, l, &c.Counts)
				if e != nil && p.Space != o.Space {
					e = &v1alpha1.PlacementError{
						Space: string(o.Space), Object: "core/configmaps", Location: e.Location, Reason: e.Reason,
						Message: "details are hidden: use, with the right to list these objects, orrery status --space " + string(o.Space),
					}
				}
				if e != nil && e.Reason == "Degraded" {
					sick[p] = append(sick[p], *e)
				} else if e != nil && len(c.Errors) < 10 && !slices.Contains(c.Errors, *e) {
					c.Errors = append(c.Errors, *e)
				}
			}
			placements[p] = c
		}
		for _, l := range in.Members() {
			c := locations[l]
			m.count(state, o, row, l, &c)
			c.Stale = 0 // the Location's row says it
			locations[l] = c
		}
		return true
	})
	for p, all := range sick { // after those that fail
		c := placements[p]
		for _, e := range all {
			if len(c.Errors) < 10 && !slices.Contains(c.Errors, e) {
				c.Errors = append(c.Errors, e)
			}
		}
		placements[p] = c
	}
	return placements, locations
}

// leftOf counts an object at locations that it is not assigned to, by their reports.
func leftOf(state *table.Snapshot, o key.Object, in *placement.Membership) (left v1alpha1.LeftCounts) {
	for _, l := range testLocations {
		row := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
		if row == nil || in.Contains(l) {
			continue
		}
		var r wire.Report
		if err := json.Unmarshal(row.Value, &r); err != nil {
			panic(err)
		}
		switch {
		case r.State != wire.Orphaned:
			left.Leaving++
		case r.Reason != v1alpha1.ReasonReleased:
			left.Leftovers++
		}
	}
	return left
}

// count counts one pair and returns what is wrong with it.
func (m *machine) count(state *table.Snapshot, o key.Object, row *table.Row, l key.Location, c *v1alpha1.Counts) *v1alpha1.PlacementError {
	c.Assigned++
	if in := row.In.(*placement.Membership); !in.Contains(l) {
		c.Failed++
		return &v1alpha1.PlacementError{
			Object: o.Identity.String(), Location: string(l), Reason: "NotAdmitted",
			Message: "the location does not admit it; orrery why says by which part of its spec.admit",
		}
	}
	location := state.Get(objectAt(key.Root, v1alpha1.Group, "locations", "", string(l)).Key())
	if location != nil && strings.Contains(string(location.Value), `"status":"False","type":"Connected"`) {
		c.Stale++
	}
	e := &v1alpha1.PlacementError{Object: o.Identity.String(), Location: string(l)}
	var r wire.Report
	if row := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key()); row != nil {
		if err := json.Unmarshal(row.Value, &r); err != nil {
			panic(err)
		}
	}
	place, _ := row.In.(*placement.Membership).Place(l)
	sum, err := digest(row.Entry, place.Class)
	switch {
	case place.Owner != "":
		c.Failed++
		e.Reason, e.Message = "OtherSpace", wire.OtherSpace
		return e
	case place.Held != "":
		c.Held++
	case err != nil:
		c.Held++
		e.Reason, e.Message = "NotRendered", err.Error()
		if errors.As(err, new(ruleError)) {
			e.Reason = "RuleFailed"
		}
		return e
	case r.UID != row.Meta.UID:
	case r.State == wire.Applied && r.Digest == sum:
		c.Applied++
		if r.Reason == "Mutated" {
			c.Mutated++
		}
		if r.Health == wire.Healthy {
			c.Healthy++
		}
		if r.Health == wire.Degraded {
			e.Reason, e.Message = "Degraded", r.HealthNote
			return e
		}
	case r.State == wire.Held:
		c.Held++
	case strings.Contains("Failed Unsupported Conflict", string(r.State)):
		c.Failed++
		if e.Reason, e.Message = r.Reason, r.Message; e.Reason == "" {
			e.Reason = string(r.State)
		}
		return e
	}
	return nil
}
