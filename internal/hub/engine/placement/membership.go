package placement

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/rulepath"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Membership holds the locations to which an object is assigned, and the policies. Rows with equal
// placement share one Membership. It is immutable and safe for concurrent use.
type Membership struct {
	sources []Source
	// releases and rules are the effects of Customizers on the object. They also cover locations
	// where no source places it.
	releases, rules []effect
	members         []key.Location
	// refused are the locations that sources select but that do not admit the object.
	refused []key.Location
	// yields are the locations where an upsync entry of the space matches the object, so that
	// policy does not assign it there. notified are these and the members: the locations whose
	// agents are notified of changes. Both are in order.
	yields, notified []key.Location
	// upsyncing are the locations with upsync entries that match, whatever they admit; nil if there
	// are none.
	upsyncing *locationSet
	// shared are the locations that have the object, a CRD, for spaces that have bound its
	// resource; nil if there are none.
	shared *locationSet
	gate   gate
	foreignState
	// released holds the released paths for each of the members, in the format of wire.Policy; nil
	// if they are releasedAll everywhere.
	released    []string
	releasedAll string
	// classes holds the class of each member; nil if all have classAll.
	classes   []*Class
	classAll  *Class
	returning returning
	// health are the health rules for the object; nil if there are none.
	health *HealthRules
	// statuses are the members whose status returns.
	statuses []key.Location
	// associates reports whether associated objects of the object are reported from any location.
	associates bool
	// leaves reports whether the object is being deleted. Its members are then the locations that
	// must confirm its removal.
	leaves bool
}

var _ table.Membership = (*Membership)(nil)

// Source is one policy that places an object: a Placement, or the annotation on the object itself.
type Source struct {
	// Placement is the name of the Placement in the object's space; empty for the annotation.
	Placement key.PlacementRef
	// Suspended reports whether the source holds objects: they must not change at their locations.
	Suspended bool
	// Waits reports whether the deletion of the object waits until its locations have removed it.
	Waits     bool
	locations *locationSet
	// policies has more than one entry if the object follows others with other policies.
	policies []locationPolicy
}

// locationPolicy is the policy of a source for an object at some of its locations. It releases no
// paths.
type locationPolicy struct {
	policy    wire.Policy
	returns   returns
	locations *locationSet
}

// sourceOf returns a source with one or more policies.
func sourceOf(placement key.PlacementRef, suspended bool, sets *locationSets, policies ...locationPolicy) Source {
	s := Source{Placement: placement, Suspended: suspended, locations: policies[0].locations, policies: policies}
	if len(policies) > 1 {
		all := make([]*locationSet, len(policies))
		for i := range policies {
			all[i] = policies[i].locations
		}
		s.locations = sets.intern(union(all), nil)
	}
	return s
}

// Locations returns the locations that the source selects, in order. The caller must not change the
// slice.
func (s Source) Locations() []key.Location { return s.locations.names }

// Selects reports whether the source selects a location.
func (s Source) Selects(location key.Location) bool { return s.locations.contains(location) }

// PolicyAt returns the policy of the source for the object at one of its locations.
func (s Source) PolicyAt(location key.Location) (policy wire.Policy) {
	if len(s.policies) == 1 {
		return s.policies[0].policy
	}
	first := true
	for _, p := range s.policies {
		switch {
		case !p.locations.contains(location):
		case first:
			policy, first = p.policy, false
		default:
			policy = combine(policy, p.policy)
		}
	}
	return policy
}

// Place is the assignment of an object to one location.
type Place struct {
	Location key.Location
	// Policy combines the policies of all sources and Customizers that select the location.
	Policy wire.Policy
	// Held is the reason why the object must not change at the location; HeldFor is the reason in
	// one word. Both are empty if the object is not held.
	Held, HeldFor string
	// Owner is the path (key.Object.Path) of another space's object that has the identity at the
	// location; empty if this object has it.
	Owner string
	// Class is the rendering class.
	Class *Class
	// Health are the health rules for the object; nil if there are none.
	Health *HealthRules
	// Leaves reports whether the object is being deleted, and the location must confirm its
	// removal. It is held then, too.
	Leaves bool
}

// foreignState holds the objects of other spaces that affect an object at its locations, each in
// order.
type foreignState struct {
	// owners are the locations that have another space's object of the identity.
	owners []owner
	// foreign are the locations that have another space's definition of the object.
	foreign []foreign
}

// owner is a location with another space's object of the identity, by its path.
type owner struct {
	location key.Location
	path     string
}

// Members returns the locations to which the object is assigned, in order. They include those where
// it is held, or where another object has the identity. The caller must not change the slice.
func (m *Membership) Members() []key.Location { return m.members }

// Refused returns the locations that policies select but that do not admit the object, in order. It
// is not assigned to them. The caller must not change the slice.
func (m *Membership) Refused() []key.Location { return m.refused }

// Yields reports whether the object is left to a location because an upsync entry of its space
// matches it there. It is not assigned, and an already placed object becomes unmanaged.
func (m *Membership) Yields(location key.Location) bool {
	_, yields := slices.BinarySearch(m.yields, location)
	return yields
}

// Locations implements table.Membership: the members, and the locations in yields, which must give
// up management of the object.
func (m *Membership) Locations() []key.Location { return m.notified }

// Includes implements table.Membership.
func (m *Membership) Includes(location key.Location) bool {
	_, ok := slices.BinarySearch(m.notified, location)
	return ok
}

// RefusedBy reports whether a location is one of Refused.
func (m *Membership) RefusedBy(location key.Location) bool { return m.Refusal(location) != "" }

// Refusal returns the reason, in one word, why a location is one of Refused; empty if it is not.
func (m *Membership) Refusal(location key.Location) string {
	if _, refused := slices.BinarySearch(m.refused, location); !refused {
		return ""
	}
	return m.gate.refusal(location)
}

// contends reports whether the object is assigned to a location where it can conflict with objects
// of other spaces.
func (m *Membership) contends(location key.Location) bool {
	return m.Contains(location) && !m.gate.apart(location)
}

// Leaves reports whether the object is being deleted, and its members must confirm its removal.
func (m *Membership) Leaves() bool { return m.leaves }

// Associates reports whether associated objects of the object are reported from any location.
func (m *Membership) Associates() bool { return m.associates }

// Waits reports whether the deletion of the object waits until its locations have removed it.
func (m *Membership) Waits() bool {
	return slices.ContainsFunc(m.sources, func(s Source) bool { return s.Waits })
}

// Contains reports whether the object is assigned to a location.
func (m *Membership) Contains(location key.Location) bool {
	_, ok := slices.BinarySearch(m.members, location)
	return ok
}

// SameAt implements table.Membership: it reports whether both Memberships assign the object to a
// location by the same policies, in the same way and with the same class.
func (m *Membership) SameAt(location key.Location, other table.Membership) bool {
	o, ok := other.(*Membership)
	if !ok || m.leaves != o.leaves || m.Contains(location) != o.Contains(location) || m.Yields(location) != o.Yields(location) ||
		m.gate.account(location) != o.gate.account(location) || m.gate.apart(location) != o.gate.apart(location) ||
		m.ownerAt(location) != o.ownerAt(location) || m.releasedAt(location) != o.releasedAt(location) ||
		m.returnsFrom(location) != o.returnsFrom(location) || m.health.identity() != o.health.identity() ||
		m.classAt(location) != o.classAt(location) {
		return false
	}
	theirs := o.sources
	skip := func() {
		for len(theirs) > 0 && !theirs[0].locations.contains(location) {
			theirs = theirs[1:]
		}
	}
	for _, s := range m.sources {
		if !s.locations.contains(location) {
			continue
		}
		if skip(); len(theirs) == 0 || !s.alike(theirs[0], location) {
			return false
		}
		theirs = theirs[1:]
	}
	skip()
	return len(theirs) == 0
}

// alike reports whether two sources are the same at a location of both.
func (s Source) alike(o Source, location key.Location) bool {
	return s.Placement == o.Placement && s.Suspended == o.Suspended && s.PolicyAt(location) == o.PolicyAt(location)
}

// ownerAt returns the path of another space's object that has the identity at a location; empty if
// there is none.
func (m *Membership) ownerAt(location key.Location) string {
	if i, ok := slices.BinarySearchFunc(m.owners, location, compareOwner); ok {
		return m.owners[i].path
	}
	return ""
}

// releasedAt returns the released paths at one of the members, in the format of wire.Policy.
func (m *Membership) releasedAt(location key.Location) string {
	if m.released == nil {
		return m.releasedAll
	}
	if i, ok := slices.BinarySearch(m.members, location); ok {
		return m.released[i]
	}
	return ""
}

// classAt returns the class at one of the members.
func (m *Membership) classAt(location key.Location) *Class {
	if m.classes == nil {
		return m.classAll
	}
	if i, ok := slices.BinarySearch(m.members, location); ok {
		return m.classes[i]
	}
	return nil
}

// Place returns the assignment to one location; ok is false if the object is not assigned to it.
func (m *Membership) Place(location key.Location) (p Place, ok bool) {
	if !m.Contains(location) {
		return Place{}, false
	}
	p.Location = location
	held, first := true, true
	for _, s := range m.sources {
		if !s.locations.contains(location) {
			continue
		}
		if first {
			p.Policy, first = s.PolicyAt(location), false
		} else {
			p.Policy = combine(p.Policy, s.PolicyAt(location))
		}
		if !s.Suspended {
			held = false
		} else if p.Held == "" {
			p.Held, p.HeldFor = suspendedBy(s.Placement), v1alpha1.ReasonSuspended
		}
	}
	if !held {
		p.Held, p.HeldFor = "", ""
	}
	p.Policy.ReturnStatus = m.returnsFrom(location) || m.health != nil
	if p.Policy.Release = m.releasedAt(location); len(p.Policy.Release) > rulepath.MaxJoined {
		p.Policy.Release = ""
		p.Held, p.HeldFor = fmt.Sprintf("its Customizers release paths of more than %d bytes", rulepath.MaxJoined), v1alpha1.ReasonTooManyRules
	}
	p.Policy.ServiceAccount = m.gate.account(location)
	p.Owner, p.Class, p.Health = m.ownerAt(location), m.classAt(location), m.health
	if m.leaves {
		p.Leaves, p.Held, p.HeldFor = true, "the object is being deleted", v1alpha1.ReasonTerminating
	}
	return p, true
}

func suspendedBy(p key.PlacementRef) string { return "suspended by Placement " + string(p) }

func compareOwner(o owner, location key.Location) int {
	return strings.Compare(string(o.location), string(location))
}

// Places returns all assignments, in the order of their locations.
func (m *Membership) Places() []Place {
	places := make([]Place, len(m.members))
	for i, l := range m.members {
		places[i], _ = m.Place(l)
	}
	return places
}

// Placements returns the Placements that match the object, as they are named in its space and in
// order. They include those that select no location.
func (m *Membership) Placements() []key.PlacementRef {
	var names []key.PlacementRef
	for _, s := range m.sources {
		if s.Placement != "" {
			names = append(names, s.Placement)
		}
	}
	return names
}

// Sources returns the policies that place the object: the annotation first, then Placements by
// name. The caller must not change the slice.
func (m *Membership) Sources() []Source { return m.sources }

// memberships interns Memberships and Classes.
type memberships struct {
	pool      pool[Membership]
	classPool pool[Class]
}

// intern returns the Membership for a draft and the state of other spaces.
func (ms *memberships) intern(d draft, others foreignState) *Membership {
	if d.leaves {
		d.returning = returning{}
	}
	return ms.pool.get(d.key(others), func() *Membership {
		sources, releases, rules, g := d.sources, d.releases, d.rules, d.gate
		m := &Membership{
			sources: slices.Clone(sources), releases: releases, rules: rules, upsyncing: d.upsyncing, shared: d.shared, gate: g, foreignState: others,
			returning: d.returning, health: d.health, leaves: d.leaves,
		}
		all := make([]*locationSet, len(sources))
		for i, s := range sources {
			all[i] = s.locations
			m.associates = m.associates || slices.ContainsFunc(s.policies, func(p locationPolicy) bool { return p.policy.Associated != "" })
		}
		m.yields = g.yields(d.upsyncing)
		m.members, m.refused = g.split(union(all))
		m.members = apart(m.members, m.yields)
		m.notified = m.members
		if len(m.yields) > 0 {
			m.notified = slices.Sorted(slices.Values(slices.Concat(m.members, m.yields)))
		}
		m.releasedAll, m.released = released(releases, m.members)
		m.classAll, m.classes = ms.classes(rules, others.foreign, d.shared, m.members)
		m.statuses, _ = g.split(union(m.returning.sets(sources)))
		if m.statuses = apart(m.statuses, m.yields); len(m.statuses) == len(m.members) {
			m.statuses = m.members
		}
		return m
	})
}

// withForeignState returns the Membership with another state of other spaces.
func (ms *memberships) withForeignState(m *Membership, others foreignState) *Membership {
	if slices.Equal(m.owners, others.owners) && slices.Equal(m.foreign, others.foreign) {
		return m
	}
	return ms.intern(draft{m.sources, m.releases, m.rules, m.gate, m.upsyncing, m.shared, m.returning, m.health, m.leaves}, others)
}

// draft holds all inputs of a Membership except the state of other spaces.
type draft struct {
	sources           []Source
	releases, rules   []effect
	gate              gate
	upsyncing, shared *locationSet
	returning         returning
	health            *HealthRules
	leaves            bool
}

// key returns a text that identifies the draft and the state of other spaces.
func (d draft) key(others foreignState) string {
	b := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(d.sources)))
	for _, s := range d.sources {
		b = append(appendText(b, string(s.Placement)), bit(s.Suspended)|bit(s.Waits)<<1)
		b = binary.AppendUvarint(b, uint64(len(s.policies)))
		for _, p := range s.policies {
			b = binary.AppendUvarint(appendText(append(b, policyBits(p.policy), byte(p.returns)), p.policy.Associated), p.locations.id)
		}
	}
	b = appendEffects(appendEffects(b, d.releases), d.rules)
	for _, id := range d.gate.ids() {
		b = binary.AppendUvarint(b, id)
	}
	if d.upsyncing != nil {
		b = binary.AppendUvarint(b, d.upsyncing.id)
	}
	if d.shared != nil {
		b = binary.AppendUvarint(b, d.shared.id)
	}
	b = appendText(b, d.health.identity())
	b = append(b, bit(d.upsyncing != nil)|bit(d.leaves)<<1|bit(d.shared != nil)<<2, byte(d.returning.effective), byte(d.returning.requested))
	b = binary.AppendUvarint(b, uint64(len(others.owners)))
	for _, o := range others.owners {
		b = appendText(appendText(b, string(o.location)), o.path)
	}
	for _, f := range others.foreign {
		b = appendText(appendText(b, string(f.location)), f.Hash)
	}
	return string(b)
}

// apart returns the locations that are not in others. Both are in order. It returns the same slice
// if nothing is removed.
func apart(locations, others []key.Location) []key.Location {
	if !slices.ContainsFunc(others, func(l key.Location) bool { _, found := slices.BinarySearch(locations, l); return found }) {
		return locations
	}
	return slices.DeleteFunc(slices.Clone(locations), func(l key.Location) bool { _, found := slices.BinarySearch(others, l); return found })
}
