// Package placement decides which objects go to which locations, and how they are
// treated there: Placements, Customizers and the annotations of direct assignment in, the
// Membership of every object out. What a placed object refers to may follow it, as package
// refer reads it.
//
// It is pure: memberships are a function of the state of the table and of nothing else.
// It keeps only compiled policies and the claims on shared identities, and reads
// everything else from the table. It must never have a clock, a goroutine, a client or a
// log, and never look into an object beyond its metadata, but for what it refers to, if
// Placements have references followed; the texts of ConfigMaps that Customizers name; and
// templates, as package rules reads them; and the specs of CRDs that several spaces place at one
// location. A change of an object costs as much as its space
// has policies; a change of a policy, as many objects as it matches, and a look at those
// that it may match.
package placement

import (
	"iter"
	"slices"

	"orrery.dev/orrery/internal/hub/engine/mentions"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Engine computes memberships for one table, whose lock guards it: Reset and
// Derive are called by the table only. Explain and StatusOf need no Engine.
type Engine struct {
	// Rules gives the rules that change renderings. It is set before the engine is used, or
	// nil if there are none; releases do not change renderings.
	Rules RulesOf

	// placements are those about their own space; roots has the others.
	placements  map[key.Space]policies[*placement]
	roots       roots
	customizers map[key.Space]policies[*customizer]
	// locations are those that exist.
	locations map[key.Location]*site
	// going are the spaces that are being deleted: none of their objects is placed any
	// more, so that the deletion of the objects themselves is no change for locations.
	going map[key.Space]struct{}
	// upsyncs has what spaces ask to see of locations.
	upsyncs upsyncs
	// direct has the names of locations in annotations, whether or not there are such locations.
	direct mentions.Index
	// templates are those in objects.
	templates   templates
	claims      claims
	definitions definitions
	references  references
	bound       bound
	sets        locationSets
	gates       gates
	memberships memberships
	// definitionPool has what definitions say.
	definitionPool pool[Definition]
}

var _ table.Deriver = (*Engine)(nil)

// New makes an Engine for a table's Config.
func New() *Engine {
	e := &Engine{}
	e.Reset()
	return e
}

// Reset implements table.Deriver: it forgets everything.
func (e *Engine) Reset() {
	*e = Engine{
		Rules:       e.Rules,
		roots:       newRoots(),
		placements:  map[key.Space]policies[*placement]{},
		customizers: map[key.Space]policies[*customizer]{},
		locations:   map[key.Location]*site{},
		going:       map[key.Space]struct{}{},
		upsyncs:     newUpsyncs(),
		direct:      mentions.New(),
		templates:   templates{map[string]*template{}, map[key.Space]map[string]*template{}},
		claims:      claims{},
		definitions: definitions{},
		references:  newReferences(),
		bound:       newBound(),
	}
	e.gates = newGates(&e.sets)
}

// Derive implements table.Deriver: it computes the memberships after the changes of one
// revision.
func (e *Engine) Derive(state table.Reader, changes []table.Change) []table.Assignment {
	return e.step(state).derive(changes)
}

// step begins the work of one Derive.
func (e *Engine) step(state table.Reader) *step {
	return &step{
		Engine:    e,
		state:     state,
		recheck:   map[reach]concern{},
		endedIn:   map[endedIn][]key.PlacementRef{},
		emptied:   map[key.Object]bool{},
		evaluated: map[string]struct{}{},
		moved:     map[key.Object]struct{}{},
		unsettled: map[key.Object]struct{}{},
		disputed:  map[spot]struct{}{},
		winners:   map[spot]key.Space{},
		read:      map[key.Object]*Definition{},

		relocated: map[key.Location]bool{}, readmitted: map[key.Location]bool{}, asking: map[key.Space]bool{},
	}
}

// evaluate gives the Membership of an object without regard to other spaces, nil if nothing
// places it, and how what it refers to follows it.
func (e *Engine) evaluate(s subject) (as *Membership, follows []following) {
	leaves := leaves(s.row)
	if _, going := e.going[s.Space]; going || Never(s.Resource) != "" || s.row.Meta.Deleting && !leaves {
		return nil, nil
	}
	var sources []Source
	if d := directOf(s.row); d.given {
		var there []key.Location
		for _, l := range d.locations {
			if e.locations[l].open() {
				there = append(there, l)
			}
		}
		if len(there) > 0 {
			sources = append(sources, sourceOf("", false, &e.sets, part{wire.Policy{}, d.returns, e.sets.of(there, nil)}))
		}
	}
	behind, asked := e.references.of(s.Object), e.askedOf(s)
	g := e.gates.gate(s.state, s.Object)
	yields := g.yields(asked)
	for p := range e.placing(s.Space) {
		parts, by := e.parts(p, s, behind, yields)
		if len(parts) > 0 {
			source := sourceOf(p.ref, p.suspended, &e.sets, parts...)
			source.Waits = p.waits
			sources = append(sources, source)
		}
		follows = append(follows, by...)
	}
	var shared *locationSet
	if by := slices.DeleteFunc(behind, func(f following) bool { return f.consumer == "" }); len(by) > 0 {
		sources, g, asked = e.consumed(sources, g, asked, by)
		shared = e.sharedBy(by)
	}
	if len(sources) == 0 && len(yields) == 0 {
		return nil, nil
	}
	releases, rules := e.effectsOn(s)
	if leaves {
		follows = nil
	}
	return e.memberships.of(draft{sources, releases, rules, g, asked, shared, returnOf(s, e.bound.is(s.Space, s.Resource), sources), leaves}, meeting{}), follows
}

// placing are the Placements that may place objects of a space: its own, then those of
// root that reach it, each in the order of names.
func (e *Engine) placing(space key.Space) iter.Seq[*placement] {
	return func(yield func(*placement) bool) {
		for _, all := range [2][]*placement{e.placements[space], e.roots.of[space]} {
			for _, p := range all {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// scopes calls fn for all policies of all spaces, each about its own.
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

// scopesOf calls fn for all policies about a space.
func (e *Engine) scopesOf(space key.Space, fn func(*scope)) {
	for p := range e.placing(space) {
		fn(&p.scope)
	}
	for _, c := range e.customizers[space] {
		fn(&c.scope)
	}
}
