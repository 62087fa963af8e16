package placement

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// scope is what compiled policies have in common: which objects of their space they match,
// and which locations they select.
type scope struct {
	name string
	// ref is how a Placement is named in the space of its objects; empty of others.
	ref  key.PlacementRef
	spec string // as it is in the log, to recognize writes that change only the status
	// follows is what the status says of what follows, as it is in the log.
	follows string
	// tests match the objects: one that fits is enough.
	tests []objectTest
	// yields match the objects that a Placement leaves to its locations: its upsync.
	yields []objectTest
	// locations select the locations: one that fits is enough.
	locations []locationTest
	// admitted selects only locations that admit something of the space, see sees.
	admitted bool
	// everywhere selects all locations, including future ones.
	everywhere bool
	// problems are what is wrong with the spec; a broken entry selects nothing.
	problems []string
	// needs is what the policy needs of a location, for objects to be rendered; nil:
	// nothing of any.
	needs func(at Site) string
	// set is what the location tests select; nil is everywhere, without needs.
	set *locationSet
	// seating says which of them an object gets; nil: all.
	seating *seating
}

func (p *scope) base() *scope { return p }

// selective says that the policy needs a set of locations: it is not the same at all.
func (p *scope) selective() bool { return !p.everywhere || p.needs != nil }

// note notes the problems of the tests.
func (p *scope) note() {
	for _, t := range p.locations {
		if t.problem != "" {
			p.problems = append(p.problems, t.problem)
		}
	}
	for _, t := range slices.Concat(p.tests, p.yields) {
		if t.problem != "" {
			p.problems = append(p.problems, t.problem)
		}
	}
}

// acts says that there is a policy, that is not being deleted, nor for a lower hub.
func acts(row *table.Row) bool {
	return row != nil && !row.Meta.Deleting && !v1alpha1.IsForBelow(row.Meta.Labels)
}

// specOf is a copy of a row's spec, which does not keep the row's value alive.
func specOf(row *table.Row) string { return gjson.GetBytes(row.Value, "spec").Raw }

// selects says whether a location is one of the policy's.
func (p *scope) selects(at *site) bool {
	for i := range p.locations {
		if p.locations[i].fit(at) {
			return true
		}
	}
	return p.everywhere
}

// takes says whether a location is one that objects can get by the policy, and whether it
// is barred to those that it does not have.
func (p *scope) takes(at *site, a *admit, t tenant) (in, barred bool) {
	if !p.selects(at) || !p.sees(at, a, t) || len(p.seating.against(at, v1alpha1.TaintEvict)) > 0 {
		return false, false
	}
	return true, len(p.seating.against(at, v1alpha1.TaintNoPlace)) > 0
}

// sees says whether a location that the policy selects exists for its space, as far as the
// location's spec.admit goes: one that admits nothing of a space does not, unless it is
// named. Labels thereby select among what the space can use, and a name that was given on
// purpose is answered with a refusal.
func (p *scope) sees(at *site, a *admit, t tenant) bool {
	return !p.admitted || a.admitsSpace(t) || slices.ContainsFunc(p.locations, func(of locationTest) bool { return of.named && of.fit(at) })
}

// followsOf is a copy of what the status of a row's policy says of what follows.
func followsOf(row *table.Row) string { return gjson.GetBytes(row.Value, "status.follows").Raw }

// readFollows reads it. What can't be read follows nothing.
func readFollows(raw string) (follows []v1alpha1.Follows) {
	if raw == "" || json.Unmarshal([]byte(raw), &follows) != nil {
		return nil
	}
	return follows
}

// reach calls fn for the parts of a space that hold all objects the policy may
// match.
func (p *scope) reach(space key.Space, fn func(reach)) {
	for i := range p.tests {
		p.tests[i].reach(space, "", fn)
	}
	for i := range p.yields {
		p.yields[i].reach(space, "", fn)
	}
}

// reachByNamespace is reach for the objects in a namespace that tests match by the
// namespace's labels.
func (p *scope) reachByNamespace(space key.Space, namespace string, fn func(reach)) {
	for i := range p.tests {
		if p.tests[i].byNamespace {
			p.tests[i].reach(space, namespace, fn)
		}
	}
}

// policy is a compiled Placement or Customizer.
type policy interface {
	comparable
	base() *scope
}

// policies are those of one kind in one space, in the order of their names.
type policies[P policy] []P

func (ps policies[P]) find(name string) (int, bool) {
	return slices.BinarySearchFunc(ps, name, func(p P, name string) int { return strings.Compare(p.base().name, name) })
}

// set replaces the policy of a name, or removes it if p is nil.
func (ps policies[P]) set(name string, p P) policies[P] {
	i, found := ps.find(name)
	var none P
	switch {
	case p == none && found:
		return slices.Delete(ps, i, i+1)
	case p == none:
		return ps
	case found:
		ps[i] = p
		return ps
	}
	return slices.Insert(ps, i, p)
}

// labelsOf are the labels of a row, none if it is nil.
func labelsOf(row *table.Row) table.Labels {
	if row == nil {
		return nil
	}
	return row.Meta.Labels
}
