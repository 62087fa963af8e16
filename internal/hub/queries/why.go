package queries

import (
	"context"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// explainer explains the decision of policies about one object at one location. It is safe for concurrent
// use.
type explainer struct {
	table    *table.Table
	digest   objectstate.Digest
	renderer *render.Renderer
	pruned   *prune.Index
	statuses *objectStatuses
}

// effects returns the effects of a class's rules on a row's object. The object's state has all
// other reasons for a failed rendering.
func (e *explainer) effects(ctx context.Context, row *table.Row, class *placement.Class) []rules.Effect {
	effects, err := e.renderer.Effects(ctx, row.Entry, class)
	if err != nil {
		return nil
	}
	return effects
}

// why explains why an object is or is not assigned to a location, and returns its state there.
func (e *explainer) why(ctx context.Context, rights *rights, o key.Object, l key.Location) Why {
	snapshot := e.table.Snapshot()
	answer := Why{Decision: placement.Explain(ctx, snapshot, o, l)}
	rights.narrow(&answer.Decision)
	row := snapshot.Get(o.Key())
	m, p, ok := placeOf(row, l)
	if m == nil || !ok || p.Leaves {
		if ps, left := leftStatus(snapshot, o, l, staleIn(snapshot)(l)); left {
			if answer.Place = &ps; !rights.lists(key.Identity{Resource: key.Placements}) {
				ps.LetGoBy = ""
			}
			if ps.Reason == v1alpha1.ReasonPruneGuard {
				answer.Waiting = waiting(e.pruned, rights)
			}
		} else if ok {
			answer.Place = new(e.statuses.placeStatus(snapshot, o, row, p, staleIn(snapshot)(l)))
		} else if m != nil && m.RefusedBy(l) {
			answer.Place = new(placeStatusOf(l, objectstate.Refused(m.Refusal(l))))
		}
		return answer
	}
	ps := e.statuses.placeStatus(snapshot, o, row, p, staleIn(snapshot)(l))
	answer.Place = &ps
	if ps.Reason == v1alpha1.ReasonPruneGuard { // the object is to be recreated, and its deletion is pending
		answer.Waiting = waiting(e.pruned, rights)
	}
	if rights.lists(key.Identity{Resource: key.Customizers}) {
		answer.Rules = e.effects(ctx, row, p.Class)
	}
	if read.IsDesired(row, l) {
		if digest, err := e.digest(row.Entry, p.Class); err == nil {
			answer.Digest = digest.String()
		}
	}
	if report := reportOf(snapshot, o, l); report != nil {
		answer.Applied = objectstate.Reported(report).String()
	}
	return answer
}

// waiting returns the pending removals, if the reader may list Placements.
func waiting(pruned *prune.Index, rights *rights) []prune.Waiting {
	if !rights.lists(key.Identity{Resource: key.Placements}) {
		return []prune.Waiting{}
	}
	return pruned.Waiting(rights.space)
}
