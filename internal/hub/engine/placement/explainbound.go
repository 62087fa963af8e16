package placement

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ProvidedExplanation describes a CRD in the space of a provider that follows the bound objects of
// a space.
type ProvidedExplanation struct {
	// Binding is the APIBinding of the space; Space is the space of the provider.
	Binding string    `json:"binding"`
	Space   key.Space `json:"space"`
	// Reason is the reason, in one word, why nothing comes from the provider: for instance, its
	// space no longer exists.
	Reason string `json:"reason,omitempty"`
}

// bindingOf returns the APIBinding by which a space has a resource; nil if there is none.
func bindingOf(state table.Reader, s key.Space, r key.Resource) *binding.Binding {
	for _, b := range binding.InSpace(state, s) {
		if _, is := b.Bound(r); is {
			return b
		}
	}
	return nil
}

// defined returns the resource that a CRD of this name defines.
func defined(name string) key.Resource {
	resource, group, _ := strings.Cut(name, ".")
	return key.NewResource(group, resource)
}

// referredTo returns the object to which a reference leads: one of the same space, or a CRD in the
// provider's space, with the APIBinding. ok is false if the provider does not provide it now.
func referredTo(state table.Reader, s key.Space, id key.Identity) (o key.Object, apiBinding *binding.Binding, ok bool) {
	o = key.Object{Space: s, Identity: id}
	if id.Resource != key.CRDs {
		return o, nil, true
	}
	if apiBinding = bindingOf(state, s, defined(id.Name)); apiBinding == nil {
		return o, nil, true
	}
	if ok = apiBinding.Provided(state) == ""; ok && apiBinding.Provider() == s {
		return o, nil, true
	}
	o.Space = apiBinding.Provider()
	return o, apiBinding, ok
}

// explainProvided describes why the CRD of a bound resource is, or is not, at a location for the
// space that has bound it. object names the CRD as if it were in that space, which has no CRD of
// this name.
func explainProvided(state table.Reader, budget *Budget, object key.Object, apiBinding *binding.Binding, location key.Location, locationRow *table.Row) Explanation {
	from := key.Object{Space: apiBinding.Provider(), Identity: object.Identity}
	e := Explanation{Object: object.Path(), Location: location, Provided: &ProvidedExplanation{
		Binding: apiBinding.Name, Space: from.Space, Reason: apiBinding.Provided(state),
	}}
	row := state.Get(from.Key())
	e.Obstacles = append(obstacles(state, from, row), locationObstacles(object.Space, location, locationRow)...)
	if going(state, object.Space) {
		e.Obstacles = append(e.Obstacles, goingText(object.Space))
	}
	e.Admission = explainAdmission(state, object, locationRow)
	if row == nil {
		return e
	}
	loc := siteOf(locationRow)
	admits := e.Admission == nil || e.Admission.Admits
	brought, held := false, ""
	s := subject{Object: object, row: row, state: budget.Reader(state)}
	e.explainPlacements(state, budget, object.Space, func(p *placement) PlacementExplanation {
		one := PlacementExplanation{Name: p.ref, Suspended: p.suspended, Unreached: p.unreached(state, object.Space), Fit: Fit{Matched: -1}, Follower: true}
		if loc != nil && one.Unreached == nil {
			one.Following = p.explainProvided(s, loc)
		}
		one.Places = one.Following != nil && one.Following.Follows && admits && len(e.Obstacles) == 0 && e.Provided.Reason == ""
		if brought = brought || one.Places; one.Places && one.Suspended && held == "" {
			held = suspendedBy(one.Name)
		}
		return one
	})
	m, ok := row.In.(*Membership)
	if ok && m != nil && !brought && e.OmittedPlacements > 0 {
		brought = admits && len(e.Obstacles) == 0 && e.Provided.Reason == "" && slices.ContainsFunc(m.sources, func(s Source) bool {
			return s.Selects(location) && s.Placement.Resolve(from.Space).Space == object.Space
		})
	}
	if ok && m != nil && brought {
		if place, ok := m.Place(location); ok && !place.Leaves {
			e.Placed, e.Held, e.Owner, e.Policy = true, place.Held, place.Owner, place.Policy
			e.Unhooked = Hooked(row.Value)
			if place.HeldFor == v1alpha1.ReasonSuspended { // this reason holds for all consumers of the CRD
				e.Held = held
			}
		}
	}
	return e
}

// explainProvided describes how a provider's CRD follows the objects of the subject's space.
func (p *placement) explainProvided(s subject, loc *site) *FollowExplanation {
	if !p.hasFollowed() {
		return nil
	}
	t, e := p.trail(s, loc), &FollowExplanation{}
	t.explainBehind(s.Object, e)
	if e.Partial = t.visited > maxTrail; !e.Follows && e.Unread == nil && !e.Partial {
		return nil
	}
	return e
}

// explainConsumers sets Consumers: the Placements by which the location has a CRD for spaces that
// have bound its resource. They are the sources that do not place the CRD otherwise.
func (e *Explanation) explainConsumers(m *Membership) {
	for _, s := range m.sources {
		if s.Placement == "" || !m.Contains(e.Location) || !s.Selects(e.Location) {
			continue
		}
		own := false
		for _, p := range e.Placements {
			own = own || p.Name == s.Placement && p.Places
		}
		if !own && !e.mayOmit(s.Placement) {
			e.Consumers = append(e.Consumers, s.Placement)
		}
	}
}

// mayOmit reports whether a Placement may be one of those that were not evaluated.
func (e *Explanation) mayOmit(ref key.PlacementRef) bool {
	space, _, _ := strings.Cut(e.Object, "/")
	owner := ref.Resolve(key.Space(space)).Space
	return owner == key.Space(space) && e.OmittedPlacements > 0 || owner == key.Root && e.OmittedOfRoot
}

func (p *ProvidedExplanation) describe(line func(string, ...any)) {
	switch {
	case p == nil:
	case p.Reason != "":
		line("  APIBinding %s had it from space %q, from which nothing comes now: %s", p.Binding, p.Space, p.Reason)
	default:
		line("  it comes from space %q by APIBinding %s, and follows the placed objects of its API", p.Space, p.Binding)
	}
}

func (e Explanation) describeConsumers(line func(string, ...any)) {
	if len(e.Consumers) > 0 {
		names := make([]string, len(e.Consumers))
		for i, c := range e.Consumers {
			names[i] = string(c)
		}
		line("  it follows what other spaces, which have bound it, place of it there, by Placement %s", strings.Join(names, ", "))
	}
	if e.OtherConsumers > 0 {
		line("  it follows what %d Placements of other spaces, which have bound it, place of it there", e.OtherConsumers)
	}
}
