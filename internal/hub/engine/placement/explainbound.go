package placement

import (
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ProvidedExplanation says that the definition of what a space has bound comes from its
// provider's space, and follows what the space has of it.
type ProvidedExplanation struct {
	// Binding is the APIBinding of the space, Space that of the provider.
	Binding string    `json:"binding"`
	Space   key.Space `json:"space"`
	// Reason says why nothing comes from there, in one word: the space is gone, or another.
	Reason string `json:"reason,omitempty"`
}

// bindingOf is the APIBinding by which a space has a resource; nil if none.
func bindingOf(state table.Reader, s key.Space, r key.Resource) *binding.Binding {
	for _, b := range binding.Of(state, s) {
		if _, is := b.Bound(r); is {
			return b
		}
	}
	return nil
}

// defined is the resource that a CRD of a name defines.
func defined(name string) key.Resource {
	resource, group, _ := strings.Cut(name, ".")
	return key.NewResource(group, resource)
}

// referredTo is the object that one of a space refers to, with the APIBinding by which it is
// another space's; false: nothing comes from there.
func referredTo(state table.Reader, s key.Space, id key.Identity) (o key.Object, by *binding.Binding, ok bool) {
	o = key.Object{Space: s, Identity: id}
	if id.Resource != key.CRDs {
		return o, nil, true
	}
	if by = bindingOf(state, s, defined(id.Name)); by == nil {
		return o, nil, true
	}
	if ok = by.Provided(state) == ""; ok && by.Provider() == s {
		return o, nil, true
	}
	o.Space = by.Provider()
	return o, by, ok
}

// explainProvided says why the definition of what a space has bound is, or is not, at a
// location for that space, if it has none of the name itself: object names it as if it were
// there.
func explainProvided(state table.Reader, object key.Object, by *binding.Binding, location key.Location) Explanation {
	from := key.Object{Space: by.Provider(), Identity: object.Identity}
	e := Explanation{Object: object.Path(), Location: location, Provided: &ProvidedExplanation{
		Binding: by.Name, Space: from.Space, Reason: by.Provided(state),
	}}
	row, locationRow := state.Get(from.Key()), state.Get(location.Key())
	e.Obstacles = obstacles(state, from, row, location, locationRow)
	if going(state, object.Space) {
		e.Obstacles = append(e.Obstacles, goingText(object.Space))
	}
	e.Admission = explainAdmission(state, object, locationRow)
	if row == nil {
		return e
	}
	at := siteOf(locationRow)
	admits := e.Admission == nil || e.Admission.Admits
	brought, held := false, ""
	for p := range placementsFor(state, object.Space) {
		one := PlacementExplanation{Name: p.ref, Suspended: p.suspended, Unreached: p.unreached(state, object.Space), Fit: Fit{Matched: -1}, Follower: true}
		if at != nil && one.Unreached == nil {
			one.Following = p.explainProvided(subject{Object: object, row: row, state: state}, at)
		}
		one.Places = one.Following != nil && one.Following.Follows && admits && len(e.Obstacles) == 0 && e.Provided.Reason == ""
		if brought = brought || one.Places; one.Places && one.Suspended && held == "" {
			held = suspendedBy(one.Name)
		}
		e.Placements = append(e.Placements, one)
	}
	if m, ok := row.In.(*Membership); ok && m != nil && brought {
		if place, ok := m.Place(location); ok && !place.Leaves {
			e.Placed, e.Held, e.Owner, e.Policy = true, place.Held, place.Owner, place.Policy
			e.Unhooked = Hooked(row.Value)
			if place.HeldFor == v1alpha1.ReasonSuspended { // which takes all, also those of others
				e.Held = held
			}
		}
	}
	return e
}

// explainProvided is how a definition of another space follows what the subject's has of it.
func (p *placement) explainProvided(s subject, at *site) *FollowExplanation {
	if !p.hasFollowed() {
		return nil
	}
	t, e := p.trail(s, at), &FollowExplanation{}
	t.explainBehind(s.Object, e)
	if e.Partial = t.looked > maxTrail; !e.Follows && e.Unread == nil && !e.Partial {
		return nil
	}
	return e
}

// explainConsumers are the Placements by which a definition is at the location for spaces that
// have bound what it defines: those of its sources that do not place it otherwise.
func (e *Explanation) explainConsumers(m *Membership) {
	for _, s := range m.sources {
		if s.Placement == "" || !m.Has(e.Location) || !s.Selects(e.Location) {
			continue
		}
		own := false
		for _, p := range e.Placements {
			own = own || p.Name == s.Placement && p.Places
		}
		if !own {
			e.Consumers = append(e.Consumers, s.Placement)
		}
	}
}

func (p *ProvidedExplanation) describe(line func(string, ...any)) {
	switch {
	case p == nil:
	case p.Reason != "":
		line("  APIBinding %s had it from space %q, from which nothing comes now: %s", p.Binding, p.Space, p.Reason)
	default:
		line("  it comes from space %q by APIBinding %s, and follows what is placed of it", p.Space, p.Binding)
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
