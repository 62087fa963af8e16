package queries

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// placementTotals summarizes Placements for one space. Totals name no object that the reader may not list.
// It is safe for concurrent use.
type placementTotals struct {
	digest   objectstate.Digest
	progress *progress.Tracker
	releases *helm.Index
	leftOut  *unreturned.Index
}

// maxTotals is the budget of the totals of Placements, in rows: it pays for 500 Placements that select among 10,000
// locations by labels.
const maxTotals = 5_000_000

// ofSpace summarizes the Placements of a space whose names wants accepts, until the context ends or the budget is
// spent. It counts the others. Counts may be outdated by at most the delay of the progress tracker.
func (r *placementTotals) ofSpace(ctx context.Context, budget *placement.Budget, state table.Reader, rights *rights, wants func(key.PlacementRef) bool) (all []PlacementTotal, omitted int) {
	s, bounded := rights.space, budget.Reader(state)
	unknown := func(object string) bool { // the name may stand for a whole kind
		id, err := key.ParseIdentity(object)
		return err == nil && !rights.lists(id)
	}
	state.Ascend(key.ResourcePrefix(s, key.Placements), func(row *table.Row) bool {
		if ctx.Err() != nil {
			return false
		}
		o, err := key.ParseObject(row.Key)
		if err != nil {
			return true
		}
		p := key.Placement{Space: s, Name: o.Name}
		if !wants(p.In(s)) {
			return true
		}
		if budget.IsSpent() {
			omitted++
			return true
		}
		resolved, ok := placement.StatusOf(bounded, p)
		if budget.IsSpent() {
			omitted++
			return true
		}
		if !ok {
			return true
		}
		counts := r.progress.Placement(ctx, p)
		var partly []string
		for _, partial := range r.releases.PartialReleases(p, s) {
			partial.Missing = slices.DeleteFunc(partial.Missing, unknown)
			partly = append(partly, partial.String())
		}
		all = append(all, PlacementTotal{
			Unknown: resolved.Unknown, PartOf: partly, StatusLeftOut: r.leftOut.Missed(p, s).Without(unknown).String(),
			Name: p.In(s), Suspended: gjson.GetBytes(row.Value, "spec.suspend").Bool(), Problems: resolved.Problems,
			Spaces: int64(resolved.Spaces), Locations: int64(len(resolved.Locations)), Objects: counts.Objects, Counts: counts.Counts,
			Errors: slices.DeleteFunc(counts.Errors, func(e v1alpha1.PlacementError) bool { return e.Space == "" && unknown(e.Object) }),
		})
		return true
	})
	return all, omitted
}
