package queries

import (
	"net/url"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/respond"
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
