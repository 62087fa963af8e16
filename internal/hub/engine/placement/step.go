package placement

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// step is the work of one Derive.
type step struct {
	*Engine
	state table.Reader
	memo  memo

	// What changed, by what it means to the engine.
	objects    []change
	placed     []change // Placements
	customized []change // Customizers
	located    []change // Locations
	spaces     []change // Spaces
	namespaces []change
	configMaps []change
	bindings   []change // APIBindings
	reports    []table.Change

	// ended are the Placements that were deleted themselves, and endedIn the same as they
	// are named in a space, where that was asked.
	ended   []key.Placement
	endedIn map[endedIn][]key.PlacementRef
	// emptied says of namespaces whether they are being deleted, where that was asked.
	emptied map[key.Object]bool
	// recheck are the parts of spaces whose objects must be evaluated again, if they are
	// concerned.
	recheck map[reach]concern
	// evaluated are the keys of the objects that were evaluated in this step.
	evaluated map[string]struct{}
	// moved are the objects that begin or cease to follow another in some way.
	moved map[key.Object]struct{}
	// unsettled are the objects whose Membership may change. disputed are spots whose
	// claimants become unsettled, too.
	unsettled map[key.Object]struct{}
	disputed  map[spot]struct{}
	winners   map[spot]key.Space
	// read are definitions that were read in this step.
	read map[key.Object]*Definition
	// relocated are the locations that have changed in what concerns policies, and readmitted
	// those of them whose terms have.
	relocated, readmitted map[key.Location]bool
	// asking are the spaces of which what is asked may be another, or is of other locations;
	// those that are true may see others than before.
	asking map[key.Space]bool
}

type change struct {
	key.Object
	table.Change
}

// derive computes the memberships after the changes of one revision.
func (s *step) derive(changes []table.Change) []table.Assignment {
	clear(s.gates.asked)
	s.sort(changes)
	moved := s.updatePolicies()
	s.updateAsks(moved)
	s.noteKept()
	s.evaluateChanged()
	s.evaluateReached()
	s.followReadmitted()
	s.evaluateFollowing()
	s.noteReports()
	return s.settle()
}

// sort sorts the changes by what they mean to the engine. Keys that are neither of objects
// nor of reports mean nothing.
func (s *step) sort(changes []table.Change) {
	for _, c := range changes {
		k := c.Row().Key
		switch key.ClassOf(k) {
		case key.Reports:
			s.reports = append(s.reports, c)
		case key.Objects:
			o, err := key.ParseObject(k)
			if err != nil {
				continue
			}
			s.objects = append(s.objects, change{o, c})
			switch {
			case o.Resource == key.Locations && o.Space == key.Root:
				s.located = append(s.located, change{o, c})
			case o.Resource == key.Spaces && o.Space == key.Root:
				s.spaces = append(s.spaces, change{o, c})
			case o.Resource == key.APIBindings:
				s.bindings = append(s.bindings, change{o, c})
			case o.Resource == key.Placements:
				s.placed = append(s.placed, change{o, c})
			case o.Resource == key.Customizers:
				s.customized = append(s.customized, change{o, c})
			case o.Resource == key.Namespaces:
				s.namespaces = append(s.namespaces, change{o, c})
			case o.Resource == key.ConfigMaps:
				s.configMaps = append(s.configMaps, change{o, c})
			}
		}
	}
}

// evaluateChanged evaluates the objects that themselves changed.
func (s *step) evaluateChanged() {
	for _, c := range s.objects {
		s.indexDirect(c.Change)
		s.readTemplates(c.Object, c.Cur)
		s.evaluated[c.Row().Key] = struct{}{}
		s.unsettled[c.Object] = struct{}{}
		if c.Prev != nil && c.Cur != nil && (c.Prev.CreateRev != c.Cur.CreateRev || c.Prev.Meta.UID != c.Cur.Meta.UID) {
			// Another object in its place: it does not inherit the claims.
			s.claim(c.Object, nil)
		}
		s.place(c.Object, c.Cur)
	}
}

func (s *step) indexDirect(c table.Change) {
	if c.Prev != nil && c.Cur != nil && c.Prev.Annotation(v1alpha1.AssignedLocationsAnnotation) == c.Cur.Annotation(v1alpha1.AssignedLocationsAnnotation) {
		return
	}
	if c.Prev != nil {
		for _, l := range directOf(c.Prev).locations {
			s.direct.Remove(string(l), c.Prev.Key)
		}
	}
	if c.Cur != nil {
		for _, l := range directOf(c.Cur).locations {
			s.direct.Add(string(l), c.Cur.Key)
		}
	}
}

// evaluateReached evaluates the objects that a change of policy may concern.
func (s *step) evaluateReached() {
	parts := slices.SortedFunc(maps.Keys(s.recheck), func(a, b reach) int {
		return cmp.Or(strings.Compare(a.prefix, b.prefix), strings.Compare(a.namespace, b.namespace))
	})
	covered := "" // the last prefix of which all objects were evaluated
	for _, part := range parts {
		if covered != "" && strings.HasPrefix(part.prefix, covered) {
			continue
		}
		concerned := s.recheck[part]
		if part.namespace == "" && concerned == nil {
			covered = part.prefix
		}
		s.state.Ascend(part.prefix, func(row *table.Row) bool {
			s.reevaluate(row, part.namespace, concerned)
			return true
		})
	}
}

func (s *step) reevaluate(row *table.Row, namespace string, concerned concern) {
	if _, done := s.evaluated[row.Key]; done {
		return
	}
	o, err := key.ParseObject(row.Key)
	if err != nil || namespace != "" && o.Namespace != namespace {
		return
	}
	if !concerned.has(subject{o, row, s.state, &s.memo}, &s.references) {
		return
	}
	s.evaluated[row.Key] = struct{}{}
	s.place(o, row)
}

// evaluateFollowing evaluates the objects that follow otherwise than before, then those that
// follow these. That ends: see package refs.
func (s *step) evaluateFollowing() {
	for len(s.moved) > 0 {
		moved := s.moved
		s.moved = map[key.Object]struct{}{}
		for o := range moved {
			if row := s.state.Get(o.Key()); row != nil {
				s.place(o, row)
			}
		}
	}
}

// place evaluates an object, of which the row is nil if it is gone.
func (s *step) place(o key.Object, row *table.Row) {
	var as *Membership
	var follows []following
	home := o.Space
	if row != nil {
		as, follows = s.evaluate(subject{o, row, s.state, &s.memo})
	}
	if len(follows) > 0 && !o.Resource.Builtin() {
		var defined bool
		if home, defined = s.bound.home(o.Space, o.Resource); defined {
			follows = s.abroad(subject{o, row, s.state, &s.memo}, home, follows)
		} else {
			home, follows = o.Space, nil
		}
	}
	if len(s.definitions) > 0 && !o.Resource.Builtin() {
		s.unsettled[o] = struct{}{} // its definition may be another than before
	}
	s.references.set(o, home, row, follows, func(to key.Object) { s.moved[to] = struct{}{} })
	s.claim(o, as)
}

// claim notes how an object is placed, and whose Memberships that may change.
func (s *step) claim(o key.Object, as *Membership) {
	if s.claims.as(o) == as {
		return
	}
	s.unsettled[o] = struct{}{}
	s.claims.set(o, as, func(location key.Location) { s.disputed[spot{o.Identity, location}] = struct{}{} })
}

// noteKept has objects evaluated again that a location with taints begins or ceases to
// report: it may keep what it has.
func (s *step) noteKept() {
	for _, c := range s.reports {
		if c.Prev != nil && c.Cur != nil && c.Prev.CreateRev == c.Cur.CreateRev {
			continue
		}
		r, err := key.ParseReport(c.Row().Key)
		if err != nil || r.Origin != key.Placed {
			continue
		}
		if at := s.locations[r.Location]; at != nil && len(at.taints) > 0 {
			s.reaches(reach{prefix: r.Object.Key()})
		}
	}
}

// noteReports marks the contested spots that reports are about as disputed.
func (s *step) noteReports() {
	for _, c := range s.reports {
		r, err := key.ParseReport(c.Row().Key)
		if err != nil || r.Origin != key.Placed {
			continue
		}
		if at := (spot{r.Identity, r.Location}); s.claims.claimants(at) != nil {
			s.disputed[at] = struct{}{}
		}
	}
}

// settle gives the Memberships, owners included, of all unsettled objects.
func (s *step) settle() []table.Assignment {
	for at := range s.disputed {
		for _, space := range s.claims.at(at) {
			s.unsettled[key.Object{Space: space, Identity: at.Identity}] = struct{}{}
		}
	}
	s.meetDefinitions()
	assignments := make([]table.Assignment, 0, len(s.unsettled))
	for o := range s.unsettled {
		k := o.Key()
		row := s.state.Get(k)
		if row == nil {
			continue
		}
		a := table.Assignment{Key: k, Ended: s.endedFor(o), Named: s.goesWithNamespace(o)}
		if o.Resource == key.Locations && o.Space == key.Root {
			if l := s.locationRow(key.Location(o.Name), row.In); l != nil {
				a.In = l
			}
		} else if m := s.claims.as(o); m != nil {
			a.In = s.memberships.met(m, meeting{s.ownersOf(o, m), s.metBy(o, m)})
		}
		if a.In != row.In || a.Ended != nil || a.Named {
			assignments = append(assignments, a)
		}
	}
	return assignments
}

// ownersOf are the locations that another space's object of the identity has.
func (s *step) ownersOf(o key.Object, m *Membership) []owner {
	var owners []owner
	s.claims.contested(o.Identity, m, func(location key.Location) {
		at := spot{o.Identity, location}
		space, ok := s.winners[at]
		if !ok {
			space = winner(s.state, at, s.claims.claimants(at))
			s.winners[at] = space
		}
		if space != o.Space {
			owners = append(owners, owner{location, key.Object{Space: space, Identity: o.Identity}.Path()})
		}
	})
	return owners
}
