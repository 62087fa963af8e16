// Package placement decides to which locations objects are assigned, and with which policies. Its
// inputs are Placements, Customizers and the annotations of direct assignment; its output is the
// Membership of every object. Objects that a placed object references may follow it to its
// locations, see package refs.
//
// The engine is pure: memberships are a function of the state of the table and of nothing else. It
// keeps only compiled policies and indexes, and reads everything else from the table. It must never
// have a clock, a goroutine, a client or a logger.
//
// It reads only the metadata of objects, with four exceptions: references, if Placements have them
// followed; ConfigMaps that Customizers name; templates, see package rules; and the specs of CRDs
// that several spaces place at one location.
//
// A change of an object costs time in proportion to the policies of its space. A change of a policy
// costs time in proportion to the objects that it may match.
package placement

import (
	"iter"
	"slices"

	"orrery.dev/orrery/internal/hub/engine/mentions"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Engine computes memberships for one table. The lock of the table guards it: only the table calls
// Reset, Derive and, without its lock, Prepare. Explain and StatusOf need no Engine.
type Engine struct {
	// Compilers must be set before the engine is used.
	Compilers

	// placements holds the Placements that select objects of their own space; roots holds the
	// others.
	placements  map[key.Space]policies[*placement]
	roots       roots
	customizers map[key.Space]policies[*customizer]
	kindRules   kindRulesIndex
	// locations holds the existing locations.
	locations map[key.Location]*site
	// going holds the spaces that are being deleted. None of their objects is placed any more, so
	// the deletion of each object does not change any location again.
	going map[key.Space]struct{}
	// upsyncs holds the upsync entries of spaces at locations.
	upsyncs upsyncIndex
	// direct indexes objects by the location names in their annotations, existing or not.
	direct mentions.Index
	// templates holds the templates in objects.
	templates   templates
	claims      claims
	definitions definitions
	references  references
	bound       bound
	sets        locationSets
	gates       gates
	memberships memberships
	// definitionPool interns the specs of CRDs.
	definitionPool pool[Definition]
	preparation
}

// preparation holds values for the next Derive: whether a policy acts as before, compiled policies and templates,
// Customizers with other data, and definitions.
type preparation struct {
	isSame              table.Prepared[bool]
	preparedPlacements  table.Prepared[*placement]
	preparedCustomizers table.Prepared[*customizer]
	preparedKindRules   table.Prepared[*kindRules]
	preparedData        map[*customizer]*customizer
	preparedTemplates   table.Prepared[Rules]
	preparedDefinitions table.Prepared[*Definition]
}

var (
	_ table.Deriver  = (*Engine)(nil)
	_ table.Preparer = (*Engine)(nil)
)

// New returns an Engine for a table's Config.
func New() *Engine {
	e := &Engine{}
	e.Reset()
	return e
}

// Reset implements table.Deriver. It drops all state.
func (e *Engine) Reset() {
	*e = Engine{
		Compilers:   e.Compilers,
		roots:       newRoots(),
		placements:  map[key.Space]policies[*placement]{},
		customizers: map[key.Space]policies[*customizer]{},
		kindRules:   kindRulesIndex{},
		locations:   map[key.Location]*site{},
		going:       map[key.Space]struct{}{},
		upsyncs:     newUpsyncIndex(),
		direct:      mentions.New(),
		templates:   templates{map[string]*template{}, map[key.Space]map[string]*template{}},
		claims:      claims{},
		definitions: definitions{},
		references:  newReferences(),
		bound:       newBound(),

		preparation: preparation{
			isSame: table.Prepared[bool]{}, preparedPlacements: table.Prepared[*placement]{}, preparedCustomizers: table.Prepared[*customizer]{},
			preparedKindRules: table.Prepared[*kindRules]{},
			preparedData:      map[*customizer]*customizer{}, preparedTemplates: table.Prepared[Rules]{}, preparedDefinitions: table.Prepared[*Definition]{},
		},
	}
	e.gates = newGates(&e.sets)
}

// Derive implements table.Deriver: it computes the memberships after the changes of one revision.
func (e *Engine) Derive(state table.Reader, changes []table.Change) []table.Assignment {
	defer e.forgetPrepared()
	defer clear(e.references.prepared)
	return e.step(state).derive(changes)
}

// step returns the state of one call of Derive.
func (e *Engine) step(state table.Reader) *step {
	return &step{
		Engine:    e,
		state:     state,
		recheck:   map[reach]policyFilter{},
		endedIn:   map[endedIn][]key.PlacementRef{},
		emptied:   map[key.Object]bool{},
		evaluated: map[string]struct{}{},
		moved:     map[key.Object]struct{}{},
		unsettled: map[key.Object]struct{}{},
		disputed:  map[identityAt]struct{}{},
		winners:   map[identityAt]key.Space{},
		read:      map[key.Object]*Definition{},

		relocated: map[key.Location]bool{}, readmitted: map[key.Location]bool{}, upsyncsChanged: map[key.Space]bool{},
	}
}

// evaluate returns the Membership of an object without regard to other spaces, or nil if no policy
// places it. follows describes how its references follow it.
func (e *Engine) evaluate(s subject) (as *Membership, follows []following) {
	leaves, isFinalized := leaves(s.row), isFinalized(s.row)
	if _, going := e.going[s.Space]; going || Never(s.Resource) != "" || s.row.Meta.Deleting && !leaves && !isFinalized {
		return nil, nil
	}
	var sources []Source
	if d := directOf(s.row); d.given {
		var there []key.Location
		t := tenantOf(s.state, s.Space)
		for _, l := range d.locations {
			if e.locations[l].open() && (s.Space == key.Root || e.gates.admit(l).admitsSpace(t)) {
				there = append(there, l)
			}
		}
		if len(there) > 0 {
			sources = append(sources, sourceOf("", false, &e.sets, locationPolicy{wire.Policy{}, d.returns, e.sets.intern(there, nil)}))
		}
	}
	behind, upsyncing := e.references.followingsOf(s.Object), e.upsyncingOf(s)
	g := e.gates.gate(s.state, s.Object)
	yields, afterFinalizers := g.yields(upsyncing), false
	for p := range e.placing(s.Space) {
		policies, more := e.evaluatePlacement(p, s, behind, yields)
		if len(policies) > 0 {
			source := sourceOf(p.ref, p.suspended, &e.sets, policies...)
			source.Waits = p.waits
			afterFinalizers = afterFinalizers || p.afterFinalizers
			sources = append(sources, source)
		}
		follows = append(follows, more...)
	}
	switch {
	case isFinalized && afterFinalizers:
		leaves = false
	case s.row.Meta.Deleting && !leaves:
		return nil, nil
	}
	var shared *locationSet
	if consumers := slices.DeleteFunc(behind, func(f following) bool { return f.consumer == "" }); len(consumers) > 0 {
		sources, g, upsyncing = e.consumed(sources, g, upsyncing, consumers)
		shared = e.sharedBy(consumers)
	}
	if len(sources) == 0 && len(yields) == 0 {
		return nil, nil
	}
	releases, rules := e.effectsOn(s)
	if leaves {
		follows = nil
	}
	return e.memberships.intern(draft{sources, releases, rules, g, upsyncing, shared, returnOf(s, e.bound.isBound(s.Space, s.Resource), sources), e.kindRules.healthOf(s), leaves}, foreignState{}), follows
}

// placing yields the Placements that may place objects of a space: its own, then those of root that
// select the space, each ordered by name.
func (e *Engine) placing(space key.Space) iter.Seq[*placement] {
	return func(yield func(*placement) bool) {
		for _, all := range [2][]*placement{e.placements[space], e.roots.bySpace[space]} {
			for _, p := range all {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// scopes calls fn for all policies of all spaces, except Placements of root that select other
// spaces.
func (e *Engine) scopes(fn func(key.Space, *scope)) {
	for space, all := range e.placements {
		for _, p := range all {
			fn(space, &p.scope)
		}
	}
	for space, all := range e.customizers {
		for _, c := range all {
			fn(space, &c.scope)
		}
	}
}

// scopesOf calls fn for all policies that may match objects of a space.
func (e *Engine) scopesOf(space key.Space, fn func(*scope)) {
	for p := range e.placing(space) {
		fn(&p.scope)
	}
	for _, c := range e.customizers[space] {
		fn(&c.scope)
	}
}
