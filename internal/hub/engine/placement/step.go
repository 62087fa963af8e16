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

// step is the state of one call of Derive.
type step struct {
	*Engine
	state table.Reader
	memo  memo

	// The changes, sorted by kind.
	objects    []change
	placed     []change // Placements
	customized []change // Customizers
	ruled      []change // KindRules
	located    []change // Locations
	spaces     []change // Spaces
	namespaces []change
	configMaps []change
	bindings   []change // APIBindings
	reports    []table.Change

	// ended are the Placements that users have deleted by name; endedIn caches their names in a
	// space.
	ended   []key.Placement
	endedIn map[endedIn][]key.PlacementRef
	// emptied caches whether a namespace is being deleted.
	emptied map[key.Object]bool
	// recheck holds the key ranges with objects that must be evaluated again, with a filter of
	// these objects.
	recheck map[reach]policyFilter
	// evaluated are the keys of the objects that were evaluated in this step.
	evaluated map[string]struct{}
	// moved are the referenced objects that are now to follow other objects, or no longer.
	moved map[key.Object]struct{}
	// unsettled are the objects whose Membership may change. disputed are the identities in
	// conflict whose claimants are added to unsettled. winners caches the results of conflicts.
	unsettled map[key.Object]struct{}
	disputed  map[identityAt]struct{}
	winners   map[identityAt]key.Space
	// read caches definitions.
	read map[key.Object]*Definition
	// relocated are the locations that have changed for policies; readmitted are those whose terms
	// have changed.
	relocated, readmitted map[key.Location]bool
	// upsyncsChanged are the spaces whose upsync entries, or the locations of these, may have
	// changed. The value is true if the space itself has changed.
	upsyncsChanged map[key.Space]bool
}

type change struct {
	key.Object
	table.Change
}

// derive computes the memberships after the changes of one revision.
func (s *step) derive(changes []table.Change) []table.Assignment {
	clear(s.gates.byRequest)
	s.sort(changes)
	moved := s.updatePolicies()
	s.updateUpsyncs(moved)
	s.noteKept()
	s.evaluateChanged()
	s.evaluateReached()
	s.followReadmitted()
	s.evaluateFollowing()
	s.noteReports()
	return s.assign()
}

// sort sorts the changes by kind. Keys of other classes than objects and reports are ignored.
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
			case o.Resource == key.KindRules:
				s.ruled = append(s.ruled, change{o, c})
			case o.Resource == key.Namespaces:
				s.namespaces = append(s.namespaces, change{o, c})
			case o.Resource == key.ConfigMaps:
				s.configMaps = append(s.configMaps, change{o, c})
			}
		}
	}
}

// evaluateChanged evaluates the changed objects.
func (s *step) evaluateChanged() {
	for _, c := range s.objects {
		s.indexDirect(c.Change)
		s.readTemplates(c.Object, c.Cur)
		s.evaluated[c.Row().Key] = struct{}{}
		s.unsettled[c.Object] = struct{}{}
		if c.Prev != nil && c.Cur != nil && (c.Prev.CreateRev != c.Cur.CreateRev || c.Prev.Meta.UID != c.Cur.Meta.UID) {
			// It is another object of the same name and does not inherit the claims.
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

// evaluateReached evaluates the objects that changes of policies may affect.
func (s *step) evaluateReached() {
	reached := slices.SortedFunc(maps.Keys(s.recheck), func(a, b reach) int {
		return cmp.Or(strings.Compare(a.prefix, b.prefix), strings.Compare(a.namespace, b.namespace))
	})
	covered := "" // the last prefix whose objects were all evaluated
	for _, r := range reached {
		if covered != "" && strings.HasPrefix(r.prefix, covered) {
			continue
		}
		filter := s.recheck[r]
		if r.namespace == "" && filter == nil {
			covered = r.prefix
		}
		s.state.Ascend(r.prefix, func(row *table.Row) bool {
			s.reevaluate(row, r.namespace, filter)
			return true
		})
	}
}

func (s *step) reevaluate(row *table.Row, namespace string, filter policyFilter) {
	if _, done := s.evaluated[row.Key]; done {
		return
	}
	o, err := key.ParseObject(row.Key)
	if err != nil || namespace != "" && o.Namespace != namespace {
		return
	}
	if !filter.matches(subject{o, row, s.state, &s.memo}, &s.references) {
		return
	}
	s.evaluated[row.Key] = struct{}{}
	s.place(o, row)
}

// evaluateFollowing evaluates the objects whose followings have changed, then those that follow
// these. This terminates: see package refs.
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

// place evaluates an object; row is nil if it does not exist.
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
		s.unsettled[o] = struct{}{} // its definition may have changed
	}
	s.references.set(o, home, row, follows, func(to key.Object) { s.moved[to] = struct{}{} })
	s.claim(o, as)
}

// claim records how an object is placed, and adds the objects whose Memberships may change.
func (s *step) claim(o key.Object, as *Membership) {
	if s.claims.as(o) == as {
		return
	}
	s.unsettled[o] = struct{}{}
	s.claims.set(o, as, func(location key.Location) { s.disputed[identityAt{o.Identity, location}] = struct{}{} })
}

// noteKept schedules the objects that a tainted location begins or ceases to report, since the
// location may keep the objects that it has.
func (s *step) noteKept() {
	for _, c := range s.reports {
		if c.Prev != nil && c.Cur != nil && c.Prev.CreateRev == c.Cur.CreateRev {
			continue
		}
		r, err := key.ParseReport(c.Row().Key)
		if err != nil || r.Origin != key.Placed {
			continue
		}
		if loc := s.locations[r.Location]; loc != nil && len(loc.taints) > 0 {
			s.reaches(reach{prefix: r.Object.Key()})
		}
	}
}

// noteReports adds the identities in conflict whose reports have changed to disputed.
func (s *step) noteReports() {
	for _, c := range s.reports {
		r, err := key.ParseReport(c.Row().Key)
		if err != nil || r.Origin != key.Placed {
			continue
		}
		if id := (identityAt{r.Identity, r.Location}); s.claims.claimants(id) != nil {
			s.disputed[id] = struct{}{}
		}
	}
}

// assign computes the Memberships, owners included, of all unsettled objects.
func (s *step) assign() []table.Assignment {
	for id := range s.disputed {
		for _, space := range s.claims.claimedBy(id) {
			s.unsettled[key.Object{Space: space, Identity: id.Identity}] = struct{}{}
		}
	}
	s.updateDefinitions()
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
			a.In = s.memberships.withForeignState(m, foreignState{s.ownersOf(o, m), s.foreignDefinitions(o, m)})
		}
		if a.In != row.In || a.Ended != nil || a.Named {
			assignments = append(assignments, a)
		}
	}
	return assignments
}

// ownersOf returns the locations that have another space's object of the identity.
func (s *step) ownersOf(o key.Object, m *Membership) []owner {
	var owners []owner
	s.claims.contested(o.Identity, m, func(location key.Location) {
		id := identityAt{o.Identity, location}
		space, ok := s.winners[id]
		if !ok {
			space = winner(s.state, id, s.claims.claimants(id))
			s.winners[id] = space
		}
		if space != o.Space {
			owners = append(owners, owner{location, key.Object{Space: space, Identity: o.Identity}.Path()})
		}
	})
	return owners
}
