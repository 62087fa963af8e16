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

// scope is the common part of compiled policies: which objects of their space they match, and which
// locations they select.
type scope struct {
	name string
	// ref is the name of a Placement in the space of its objects; empty for Customizers.
	ref  key.PlacementRef
	spec string // JSON; used to recognize writes that change only the status
	// follows is the JSON of status.follows.
	follows string
	// tests match the objects; one match is enough.
	tests []objectTest
	// yields are the tests of a Placement's upsync.
	yields []objectTest
	// locations select the locations; one match is enough.
	locations []locationTest
	// admitted limits the selection to visible locations, see isVisible.
	admitted bool
	// isOfRoot is true for a policy in root.
	isOfRoot bool
	// everywhere selects all locations, including future ones.
	everywhere bool
	// problems are the errors in the spec; an entry with an error selects nothing.
	problems []string
	// needs returns the values of a location that rendering uses; nil if there are none.
	needs func(loc Site) string
	// set holds the selected locations; nil: all, without needs.
	set *locationSet
	// scheduling chooses among them for each object; nil: each object gets all.
	scheduling *scheduling
}

func (p *scope) base() *scope { return p }

// selective reports whether the policy needs a set of locations.
func (p *scope) selective() bool { return !p.everywhere || p.needs != nil }

// noteProblems collects the problems of the tests.
func (p *scope) noteProblems() {
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

// acts reports whether a policy is in effect: it exists, is not being deleted, and is not meant for
// a lower hub.
func acts(row *table.Row) bool {
	return row != nil && !row.Meta.Deleting && !v1alpha1.IsForBelow(row.Meta.Labels)
}

// isSame reports whether the policy has the effect that a row describes.
func (p *scope) isSame(row *table.Row) bool {
	return acts(row) && p.spec == specOf(row) && p.follows == followsOf(row) && (p.scheduling == nil || p.scheduling.uid == row.Meta.UID)
}

// specOf returns a copy of a row's spec. It does not keep the row's value in memory.
func specOf(row *table.Row) string { return gjson.GetBytes(row.Value, "spec").Raw }

// selects reports whether the policy selects a location by its name or labels.
func (p *scope) selects(loc *site) bool {
	for i := range p.locations {
		if p.locations[i].fit(loc) {
			return true
		}
	}
	return p.everywhere
}

// evaluateSite reports whether objects can get a location by the policy, and whether the location
// is barred: then only objects that it already has can stay.
func (p *scope) evaluateSite(loc *site, a *admit, t tenant) (in, barred bool) {
	if !p.selects(loc) || !p.isVisible(loc, a, t) || len(p.scheduling.against(loc, v1alpha1.TaintEvict)) > 0 {
		return false, false
	}
	return true, len(p.scheduling.against(loc, v1alpha1.TaintNoPlace)) > 0
}

// isVisible reports whether a location that the policy selects is visible to its space. A location
// that admits no object of the space is like one that does not exist: else the space could find out names.
// To policies of root, which sees all locations, it is visible by name, so that its refusal is counted.
func (p *scope) isVisible(loc *site, a *admit, t tenant) bool {
	return !p.admitted || a.admitsSpace(t) ||
		p.isOfRoot && slices.ContainsFunc(p.locations, func(lt locationTest) bool { return lt.named && lt.fit(loc) })
}

// followsOf returns a copy of the status.follows of a row's policy.
func followsOf(row *table.Row) string { return gjson.GetBytes(row.Value, "status.follows").Raw }

// readFollows parses the status.follows of a policy; empty if it is invalid.
func readFollows(raw string) (follows []v1alpha1.Follows) {
	if raw == "" || json.Unmarshal([]byte(raw), &follows) != nil {
		return nil
	}
	return follows
}

// reach calls fn for the key ranges of a space that contain all objects that the policy may match.
func (p *scope) reach(space key.Space, fn func(reach)) {
	for i := range p.tests {
		p.tests[i].reach(space, "", fn)
	}
	for i := range p.yields {
		p.yields[i].reach(space, "", fn)
	}
}

// reachByNamespace is reach for the objects in a namespace, limited to tests that depend on the
// labels of namespaces.
func (p *scope) reachByNamespace(space key.Space, namespace string, fn func(reach)) {
	for i := range p.tests {
		if p.tests[i].byNamespace {
			p.tests[i].reach(space, namespace, fn)
		}
	}
}

// policy is a compiled Placement, Customizer or KindRules.
type policy interface {
	comparable
	base() *scope
}

// policies are the policies of one kind in one space, ordered by name.
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

// labelsOf returns the labels of a row, or none if it is nil.
func labelsOf(row *table.Row) table.Labels {
	if row == nil {
		return nil
	}
	return row.Meta.Labels
}
