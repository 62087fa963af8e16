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

// Membership says to which locations an object is assigned, and by which policies. Rows
// that are placed alike share one Membership. It is immutable and safe for concurrent use.
type Membership struct {
	sources []Source
	// releases and rules are the effects of Customizers on the object, including those
	// where no source places it.
	releases, rules []effect
	members         []key.Location
	// refused are the locations that do not admit the object though sources select them.
	refused []key.Location
	// yields are the locations where an ask of the space matches the object: it is at none
	// of them by policy. told are these and the members; both are in order.
	yields, told []key.Location
	// asked are the locations where asks match, whatever they admit; nil: none.
	asked *locationSet
	// shared are the locations where the object is for others than its own space: a CRD, for
	// spaces that have bound what it defines; nil: none.
	shared *locationSet
	gate   gate
	meeting
	// released are the released paths at each of the members, as a wire.Policy has them;
	// nil if they are releasedAll everywhere.
	released    []string
	releasedAll string
	// classes are the classes of the members; nil if all are of classAll.
	classes   []*Class
	classAll  *Class
	returning returning
	// statuses are those of the members whose statuses come back.
	statuses []key.Location
	// associates says that what the object owns at some location comes back.
	associates bool
	// leaves says that the object is being deleted: its members are the locations that are to
	// confirm that it is gone.
	leaves bool
}

var _ table.Membership = (*Membership)(nil)

// Source is one policy that places an object: a Placement of the object's space
// or the annotation on the object itself.
type Source struct {
	// Placement is the Placement, as it is named in the object's space; empty for the
	// annotation.
	Placement key.PlacementRef
	// Suspended sources hold what they match as it is.
	Suspended bool
	// Waits says that the deletion of the object waits until its locations have removed it.
	Waits     bool
	locations *locationSet
	// parts say how the source treats the object at its locations. There are several where
	// it follows others that are treated otherwise than itself or than each other.
	parts []part
}

// part is how a source treats an object at some of its locations; it releases nothing.
type part struct {
	policy    wire.Policy
	returns   returns
	locations *locationSet
}

// sourceOf is a source with one or more parts.
func sourceOf(placement key.PlacementRef, suspended bool, sets *locationSets, parts ...part) Source {
	s := Source{Placement: placement, Suspended: suspended, locations: parts[0].locations, parts: parts}
	if len(parts) > 1 {
		all := make([]*locationSet, len(parts))
		for i := range parts {
			all[i] = parts[i].locations
		}
		s.locations = sets.of(union(all), nil)
	}
	return s
}

// Locations are the names of the locations that the source selects, in order.
// The caller must not change them.
func (s Source) Locations() []key.Location { return s.locations.names }

// Selects says whether a location is among them.
func (s Source) Selects(location key.Location) bool { return s.locations.has(location) }

// PolicyAt is how the source treats the object at one of its locations.
func (s Source) PolicyAt(location key.Location) (policy wire.Policy) {
	if len(s.parts) == 1 {
		return s.parts[0].policy
	}
	first := true
	for _, p := range s.parts {
		switch {
		case !p.locations.has(location):
		case first:
			policy, first = p.policy, false
		default:
			policy = combine(policy, p.policy)
		}
	}
	return policy
}

// Place is what the policies say of one object at one of its locations.
type Place struct {
	Location key.Location
	// Policy is how the object is treated there, by all sources and Customizers that select
	// the location.
	Policy wire.Policy
	// Held says why the location keeps what it has; HeldFor is the reason in one word.
	// Both are empty if the object is not held.
	Held, HeldFor string
	// Owner is the path (key.Object.Path) of another space's object of the same identity
	// that the location has instead; empty if it has this one.
	Owner string
	// Class is what the rendering depends on besides the object.
	Class *Class
	// Leaves says that the object is being deleted, and is to be gone from the location,
	// which is to confirm that. It is held then, too.
	Leaves bool
}

// meeting is what of other spaces an object meets at its locations, each in order.
type meeting struct {
	// owners are the locations that have another's object in its place.
	owners []owner
	// foreign are those that have another's definition of what the object is.
	foreign []foreign
}

// owner is a location that has another space's object of the identity, by its path.
type owner struct {
	location key.Location
	path     string
}

// Members are the names of the locations in order. The caller must not change
// them. Places that are held or lost to another object are among them.
func (m *Membership) Members() []key.Location { return m.members }

// Refused are the names of the locations that policies select but that do not admit the
// object, in order. It is not assigned to them. The caller must not change them.
func (m *Membership) Refused() []key.Location { return m.refused }

// Yields says whether the object is left to a location, since a Placement of its space asks
// to see there what is like it: it is not assigned, and what was placed is let go of.
func (m *Membership) Yields(location key.Location) bool {
	_, yields := slices.BinarySearch(m.yields, location)
	return yields
}

// Locations implements table.Membership: the members, and the locations to which the object is
// left, which are to let go of what they have.
func (m *Membership) Locations() []key.Location { return m.told }

// Includes implements table.Membership.
func (m *Membership) Includes(location key.Location) bool {
	_, ok := slices.BinarySearch(m.told, location)
	return ok
}

// RefusedBy says whether a location is among them.
func (m *Membership) RefusedBy(location key.Location) bool { return m.Refusal(location) != "" }

// Refusal is why a location is among them, in one word; empty if it is not.
func (m *Membership) Refusal(location key.Location) string {
	if _, refused := slices.BinarySearch(m.refused, location); !refused {
		return ""
	}
	return m.gate.refusal(location)
}

// contends says whether the object is assigned to a location where another space's can be
// in its way.
func (m *Membership) contends(location key.Location) bool {
	return m.Has(location) && !m.gate.apart(location)
}

// Leaves says that the object is being deleted: it is to be gone from its members, which
// confirm that.
func (m *Membership) Leaves() bool { return m.leaves }

// Associates says that what the object owns at a location comes back, at some at least.
func (m *Membership) Associates() bool { return m.associates }

// Waits says that the deletion of the object is to wait until its locations have removed it.
func (m *Membership) Waits() bool {
	return slices.ContainsFunc(m.sources, func(s Source) bool { return s.Waits })
}

// Has says whether the object is assigned to a location.
func (m *Membership) Has(location key.Location) bool {
	_, ok := slices.BinarySearch(m.members, location)
	return ok
}

// SameAt says whether by another Membership the same policies place the object at a
// location, in the same way and with the same class.
func (m *Membership) SameAt(location key.Location, other table.Membership) bool {
	o, ok := other.(*Membership)
	if !ok || m.leaves != o.leaves || m.Has(location) != o.Has(location) || m.Yields(location) != o.Yields(location) ||
		m.gate.account(location) != o.gate.account(location) || m.gate.apart(location) != o.gate.apart(location) ||
		m.ownerAt(location) != o.ownerAt(location) || m.releasedAt(location) != o.releasedAt(location) ||
		m.returnsFrom(location) != o.returnsFrom(location) ||
		m.classAt(location) != o.classAt(location) {
		return false
	}
	theirs := o.sources
	skip := func() {
		for len(theirs) > 0 && !theirs[0].locations.has(location) {
			theirs = theirs[1:]
		}
	}
	for _, s := range m.sources {
		if !s.locations.has(location) {
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

// alike says whether two sources are the same at a location of both.
func (s Source) alike(o Source, location key.Location) bool {
	return s.Placement == o.Placement && s.Suspended == o.Suspended && s.PolicyAt(location) == o.PolicyAt(location)
}

// ownerAt is the path of another space's object that a location has instead; empty if none.
func (m *Membership) ownerAt(location key.Location) string {
	if i, ok := slices.BinarySearchFunc(m.owners, location, compareOwner); ok {
		return m.owners[i].path
	}
	return ""
}

// releasedAt are the released paths at one of the members, as a wire.Policy has them.
func (m *Membership) releasedAt(location key.Location) string {
	if m.released == nil {
		return m.releasedAll
	}
	if i, ok := slices.BinarySearch(m.members, location); ok {
		return m.released[i]
	}
	return ""
}

// classAt is the class of one of the members.
func (m *Membership) classAt(location key.Location) *Class {
	if m.classes == nil {
		return m.classAll
	}
	if i, ok := slices.BinarySearch(m.members, location); ok {
		return m.classes[i]
	}
	return nil
}

// Place is what the policies say of one location; ok is false if they don't
// assign the object to it.
func (m *Membership) Place(location key.Location) (p Place, ok bool) {
	if !m.Has(location) {
		return Place{}, false
	}
	p.Location = location
	held, first := true, true
	for _, s := range m.sources {
		if !s.locations.has(location) {
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
	p.Policy.ReturnStatus = m.returnsFrom(location)
	if p.Policy.Release = m.releasedAt(location); len(p.Policy.Release) > rulepath.MaxJoined {
		p.Policy.Release = ""
		p.Held, p.HeldFor = fmt.Sprintf("its Customizers release paths of more than %d bytes", rulepath.MaxJoined), v1alpha1.ReasonTooManyRules
	}
	p.Policy.ServiceAccount = m.gate.account(location)
	p.Owner, p.Class = m.ownerAt(location), m.classAt(location)
	if m.leaves {
		p.Leaves, p.Held, p.HeldFor = true, "the object is being deleted", v1alpha1.ReasonTerminating
	}
	return p, true
}

func suspendedBy(p key.PlacementRef) string { return "suspended by Placement " + string(p) }

func compareOwner(o owner, location key.Location) int {
	return strings.Compare(string(o.location), string(location))
}

// Places are all places in the order of their locations.
func (m *Membership) Places() []Place {
	places := make([]Place, len(m.members))
	for i, l := range m.members {
		places[i], _ = m.Place(l)
	}
	return places
}

// Placements are, as they are named in the object's space and in order, the
// Placements that match the object, including those that select no location.
func (m *Membership) Placements() []key.PlacementRef {
	var names []key.PlacementRef
	for _, s := range m.sources {
		if s.Placement != "" {
			names = append(names, s.Placement)
		}
	}
	return names
}

// Sources are the policies that place the object: the annotation first, then
// Placements by name. The caller must not change them.
func (m *Membership) Sources() []Source { return m.sources }

// memberships interns Memberships and Classes.
type memberships struct {
	pool      pool[Membership]
	classPool pool[Class]
}

// of gives the Membership of what a draft says, with what the object meets.
func (ms *memberships) of(d draft, meets meeting) *Membership {
	if d.leaves {
		d.returning = returning{}
	}
	return ms.pool.get(d.key(meets), func() *Membership {
		sources, releases, rules, g := d.sources, d.releases, d.rules, d.gate
		m := &Membership{
			sources: slices.Clone(sources), releases: releases, rules: rules, asked: d.asked, shared: d.shared, gate: g, meeting: meets,
			returning: d.returning, leaves: d.leaves,
		}
		all := make([]*locationSet, len(sources))
		for i, s := range sources {
			all[i] = s.locations
			m.associates = m.associates || slices.ContainsFunc(s.parts, func(p part) bool { return p.policy.Associated != "" })
		}
		m.yields = g.yields(d.asked)
		m.members, m.refused = g.split(union(all))
		m.members = apart(m.members, m.yields)
		m.told = m.members
		if len(m.yields) > 0 {
			m.told = slices.Sorted(slices.Values(slices.Concat(m.members, m.yields)))
		}
		m.releasedAll, m.released = released(releases, m.members)
		m.classAll, m.classes = ms.classes(rules, meets.foreign, d.shared, m.members)
		m.statuses, _ = g.split(union(m.returning.sets(sources)))
		if m.statuses = apart(m.statuses, m.yields); len(m.statuses) == len(m.members) {
			m.statuses = m.members
		}
		return m
	})
}

// met gives the same Membership where the object meets others.
func (ms *memberships) met(m *Membership, meets meeting) *Membership {
	if slices.Equal(m.owners, meets.owners) && slices.Equal(m.foreign, meets.foreign) {
		return m
	}
	return ms.of(draft{m.sources, m.releases, m.rules, m.gate, m.asked, m.shared, m.returning, m.leaves}, meets)
}

// draft is what makes a Membership, but for what the object meets: sources, releases and rules, each in
// order, a gate, where asks match, where it is for others, and how the status comes back.
type draft struct {
	sources         []Source
	releases, rules []effect
	gate            gate
	asked, shared   *locationSet
	returning       returning
	leaves          bool
}

// key is another text for each draft with what its object meets.
func (d draft) key(meets meeting) string {
	b := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(d.sources)))
	for _, s := range d.sources {
		b = append(appendText(b, string(s.Placement)), bit(s.Suspended)|bit(s.Waits)<<1)
		b = binary.AppendUvarint(b, uint64(len(s.parts)))
		for _, p := range s.parts {
			b = binary.AppendUvarint(appendText(append(b, policyBits(p.policy), byte(p.returns)), p.policy.Associated), p.locations.id)
		}
	}
	b = appendEffects(appendEffects(b, d.releases), d.rules)
	for _, id := range d.gate.ids() {
		b = binary.AppendUvarint(b, id)
	}
	if d.asked != nil {
		b = binary.AppendUvarint(b, d.asked.id)
	}
	if d.shared != nil {
		b = binary.AppendUvarint(b, d.shared.id)
	}
	b = append(b, bit(d.asked != nil)|bit(d.leaves)<<1|bit(d.shared != nil)<<2, byte(d.returning.way), byte(d.returning.said))
	b = binary.AppendUvarint(b, uint64(len(meets.owners)))
	for _, o := range meets.owners {
		b = appendText(appendText(b, string(o.location)), o.path)
	}
	for _, f := range meets.foreign {
		b = appendText(appendText(b, string(f.location)), f.Hash)
	}
	return string(b)
}

// apart are those of some locations that are not among others, both in order. It shares
// memory with the former if that are all.
func apart(of, others []key.Location) []key.Location {
	if !slices.ContainsFunc(others, func(l key.Location) bool { _, has := slices.BinarySearch(of, l); return has }) {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(l key.Location) bool { _, has := slices.BinarySearch(others, l); return has })
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
