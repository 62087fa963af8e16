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

// left counts the objects at locations that they are not assigned to for a Placement, by their reports, and by
// the former Placements that the tracker has observed: TestLeftObjectsAreNeverMissed is about these.
func (m *machine) left(p key.Placement) (left v1alpha1.LeftCounts, isUnknown bool) {
	state := m.table.Snapshot()
	state.Ascend("r/", func(row *table.Row) bool {
		r, err := key.ParseReport(row.Key)
		if err != nil || r.Origin != key.Placed {
			return true
		}
		var in *placement.Membership
		if o := state.Get(r.Object.Key()); o != nil {
			in, _ = o.In.(*placement.Membership)
		}
		if in != nil && in.Contains(r.Location) {
			return true
		}
		var is wire.Report
		if err := json.Unmarshal(row.Value, &is); err != nil {
			panic(err)
		}
		former, isKnown := m.tracker.unassigned.formers[pair{r.Path(), r.Location}]
		ref := key.PlacementRef(is.LetGoBy)
		isNamed := ref != "" && (r.Object.Space == "s2" || ref != "s2/p")
		isCounted := slices.Contains(former, p) || isNamed && ref.Resolve(r.Object.Space) == p
		if in != nil {
			isCounted = isCounted || slices.ContainsFunc(in.Placements(), func(ref key.PlacementRef) bool { return ref.Resolve(r.Object.Space) == p })
		}
		isLeaving, stays := is.State != wire.Orphaned, is.State == wire.Orphaned && is.Reason != v1alpha1.ReasonReleased
		if isCounted && isLeaving {
			left.Leaving++
		}
		if isCounted && stays {
			left.Leftovers++
		}
		isCause := ref == "" && is.Cause == wire.Unassigned
		isUnknown = isUnknown || isLeaving && r.Object.Space == p.Space && !isKnown && !isNamed && !isCause
		return true
	})
	return left, isUnknown
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
