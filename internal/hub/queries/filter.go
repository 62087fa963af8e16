package queries

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Stale, as a state in a filter, selects objects at disconnected locations.
const Stale = "stale"

// statusFilter selects rows of a SpaceStatus; an empty field selects all.
type statusFilter struct {
	object, namespace string
	placement         key.PlacementRef
	// states are in lower case.
	states []string
	// lists reports whether the reader may list objects of this resource and namespace.
	lists func(key.Identity) bool
}

func statusFilterOf(query url.Values) statusFilter {
	f := statusFilter{object: query.Get("object"), namespace: query.Get("namespace"), placement: key.PlacementRef(query.Get("placement"))}
	if s := query.Get("state"); s != "" {
		f.states = strings.Split(strings.ToLower(s), ",")
	}
	return f
}

// all reports whether the filter has neither states nor a Placement.
func (f statusFilter) all() bool { return f.states == nil && f.placement == "" }

// wants reports whether an object is selected and the reader may list it.
func (f statusFilter) wants(id key.Identity) bool {
	return (f.object == "" || id.String() == f.object) && (f.namespace == "" || id.Namespace == f.namespace) && f.lists(id)
}

// shows reports whether a row is in a selected state.
func (f statusFilter) shows(ps *PlaceStatus) bool {
	return f.states == nil || slices.Contains(f.states, strings.ToLower(ps.State)) || ps.Stale && slices.Contains(f.states, Stale)
}

// placed reports whether the selected Placement, if any, assigns an object to a location.
func (f statusFilter) placed(m *placement.Membership, location key.Location) bool {
	return f.placement == "" || slices.ContainsFunc(m.Sources(), func(s placement.Source) bool {
		return s.Placement == f.placement && s.Selects(location)
	})
}

// states are the states that a filter may name, in the order of messages.
func states() []wire.State {
	return []wire.State{
		objectstate.Pending, wire.Applied, wire.Failed, wire.Held, wire.InConflict, wire.Unsupported, wire.Waiting, wire.Removing, wire.Orphaned, Stale,
	}
}

// checkStates fails if the filter names a state that does not exist.
func (f statusFilter) checkStates() error {
	var names, lower []string
	for _, s := range states() {
		names, lower = append(names, string(s)), append(lower, strings.ToLower(string(s)))
	}
	for _, s := range f.states {
		if !slices.Contains(lower, s) {
			return respond.BadRequest("state %q: want one of %s", s, strings.Join(names, ", "))
		}
	}
	return nil
}

// leftStatuses returns, by path, the statuses of objects that locations report although they are
// not assigned there, until the context ends.
func (q *Server) leftStatuses(ctx context.Context, state table.Reader, s key.Space, f statusFilter, stale func(key.Location) bool) (paths []string, all map[string][]PlaceStatus) {
	all = map[string][]PlaceStatus{}
	named := f.lists(key.Identity{Resource: key.Placements})
	remaining, err := q.config.Progress.Unassigned(ctx, key.PathPrefix(s)+f.object)
	if err != nil {
		return nil, nil
	}
	for _, l := range remaining {
		if ctx.Err() != nil {
			break
		}
		o, err := key.ParsePath(l.Path)
		if err != nil || !f.wants(o.Identity) {
			continue
		}
		ps, ok := leftStatus(state, o, l.Location, stale(l.Location))
		if !ok || !f.shows(&ps) || f.placement != "" && ps.LetGoBy != f.placement {
			continue
		}
		if !named && f.placement == "" {
			ps.LetGoBy = ""
		}
		if all[l.Path] == nil {
			paths = append(paths, l.Path)
		}
		all[l.Path] = append(all[l.Path], ps)
	}
	return paths, all
}

// leftStatus returns the status of an object that is not assigned to a location. It returns false
// if the location neither reports the object nor has to confirm its removal.
func leftStatus(state table.Reader, o key.Object, l key.Location, stale bool) (PlaceStatus, bool) {
	report, row := reportOf(state, o, l), state.Get(o.Key())
	_, p, _ := placeOf(row, l)
	if p.Leaves && objectstate.Removed(report, row.Meta.UID) || !p.Leaves && (report == nil || objectstate.Removed(report, "")) {
		return PlaceStatus{}, false
	}
	ps := placeStatusOf(l, objectstate.Left(report, stale))
	cause, placement := objectstate.LetGo(report)
	ps.LetGoBy = placement
	if ps.Cause = CauseUnassigned; cause != wire.Unassigned && (row == nil || row.Meta.Deleting) {
		ps.Cause = CauseDeleted
	}
	return ps, true
}

// leftOf counts the objects of a space that locations report although they are not assigned there,
// if the reader may list them, until the context ends.
func (q *Server) leftOf(ctx context.Context, state table.Reader, s key.Space, f statusFilter) (n v1alpha1.LeftCounts) {
	remaining, err := q.config.Progress.Unassigned(ctx, key.PathPrefix(s))
	if err != nil {
		return n
	}
	for _, l := range remaining {
		if ctx.Err() != nil {
			break
		}
		o, err := key.ParsePath(l.Path)
		if err != nil || !f.lists(o.Identity) {
			continue
		}
		switch ps, left := leftStatus(state, o, l.Location, false); {
		case !left:
		case objectstate.Left(reportOf(state, o, l.Location), false).Stays():
			n.Leftovers++
		case ps.State != "":
			n.Leaving++
		}
	}
	return n
}
