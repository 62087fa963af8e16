package queries

import (
	"cmp"
	"context"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxErrors is the maximum number of failed pairs in the status of a Placement of root.
const maxErrors = 10

// rootTotal counts the effects of a Placement of root in one space.
type rootTotal struct {
	PlacementTotal
	locations map[key.Location]struct{}
	degraded  []v1alpha1.PlacementError // listed after the failed pairs
}

// ofRoot summarizes the Placements of root that select a space, for that space only. It
// computes the totals from all objects of the space, since storing them would need an entry for
// each Placement and space. It ends with the context.
func (r *placementTotals) ofRoot(ctx context.Context, state table.Reader, rights *rights) []PlacementTotal {
	s := rights.space
	reaching := placement.Reaching(state, s)
	if len(reaching) == 0 {
		return nil
	}
	unknown := func(object string) bool {
		id, err := key.ParseIdentity(object)
		return err == nil && !rights.lists(id)
	}
	totals := make([]*rootTotal, len(reaching))
	byName := map[key.PlacementRef]*rootTotal{}
	for i, p := range reaching {
		t := &rootTotal{PlacementTotal: PlacementTotal{Name: p.Placement.In(s), Suspended: p.Suspended}, locations: map[key.Location]struct{}{}}
		for _, partial := range r.releases.PartialReleases(p.Placement, s) {
			partial.Missing = slices.DeleteFunc(partial.Missing, unknown)
			t.PartOf = append(t.PartOf, partial.String())
		}
		t.StatusLeftOut = r.leftOut.Missed(p.Placement, s).Without(unknown).String()
		totals[i], byName[t.Name] = t, t
	}
	stale := staleIn(state)
	state.Ascend(key.SpacePrefix(s), func(row *table.Row) bool {
		m, ok := row.In.(*placement.Membership)
		if !ok {
			return ctx.Err() == nil
		}
		o, err := key.ParseObject(row.Key)
		if err != nil {
			return true
		}
		for _, source := range m.Sources() {
			t := byName[source.Placement]
			if t == nil {
				continue
			}
			t.Objects++
			for _, l := range source.Locations() {
				if ctx.Err() != nil {
					return false
				}
				if m.Yields(l) {
					continue
				}
				t.add(o, l, r.objectState(state, o, row, m, l, stale(l)), rights)
			}
		}
		return true
	})
	all := make([]PlacementTotal, len(totals))
	for i, t := range totals {
		t.PlacementTotal.Locations = int64(len(t.locations))
		t.Errors = append(t.Errors, t.degraded[:min(len(t.degraded), maxErrors-len(t.Errors))]...)
		all[i] = t.PlacementTotal
	}
	return all
}

// objectState returns the state of an object at a location that a policy selects for it.
func (r *placementTotals) objectState(state table.Reader, o key.Object, row *table.Row, m *placement.Membership, l key.Location, stale bool) objectstate.Status {
	p, ok := m.Place(l)
	if !ok {
		return objectstate.Refused(m.Refusal(l))
	}
	return objectstate.Assigned(r.digest, row, p, reportOf(state, o, l), stale)
}

// add counts an object at a location.
func (t *rootTotal) add(o key.Object, l key.Location, v objectstate.Status, rights *rights) {
	t.locations[l] = struct{}{}
	t.Assigned++
	if v.Stale {
		t.Stale++
	}
	switch {
	case v.State == wire.Applied:
		if t.Applied++; v.Mutated() {
			t.Mutated++
		}
		if v.Healthy() {
			t.Healthy++
		}
	case v.State == wire.Held:
		t.Held++
	case v.Failing():
		t.Failed++
	}
	list, e := &t.Errors, v1alpha1.PlacementError{Object: o.Identity.String(), Location: string(l), Reason: cmp.Or(v.Reason, string(v.State)), Message: v.Message}
	if v.Degraded() {
		list, e.Reason, e.Message = &t.degraded, v1alpha1.ReasonDegraded, v.HealthNote
	}
	if (v.Failing() || v.Degraded()) && len(*list) < maxErrors && rights.lists(o.Identity) {
		*list = append(*list, e)
	}
}
