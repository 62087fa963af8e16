package placement

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// placement is one compiled Placement.
type placement struct {
	name      string
	spec      string // as it is in the log, to see that a status write changes nothing
	suspended bool
	treatment wire.Policy
	locations []locationTest
	downsync  []objectTest
	// problems are what is wrong with the spec; a broken entry selects nothing.
	problems []string
	// set is what the location tests select.
	set *locationSet
}

// compile reads a Placement's row, which names it by its key; nil if it is gone
// or going.
func compile(name string, row *table.Row) *placement {
	if row == nil || row.Meta.Deleting {
		return nil
	}
	p := &placement{name: name, spec: specOf(row)}
	var spec v1alpha1.PlacementSpec
	if p.spec != "" {
		if err := json.Unmarshal([]byte(p.spec), &spec); err != nil {
			p.problems = append(p.problems, fmt.Sprintf("spec: %v", err))
			return p
		}
	}
	p.suspended, p.treatment = spec.Suspend, treatment(&spec)
	p.locations = compileLocations("locations", spec.Locations)
	p.downsync = compileDownsync(spec.Downsync)
	for _, t := range p.locations {
		if t.problem != "" {
			p.problems = append(p.problems, t.problem)
		}
	}
	for _, t := range p.downsync {
		if t.problem != "" {
			p.problems = append(p.problems, t.problem)
		}
	}
	return p
}

// specOf copies the spec out of a value, so that it does not keep it alive.
func specOf(row *table.Row) string { return gjson.GetBytes(row.Value, "spec").Raw }

// selects says whether a location is one of the placement's.
func (p *placement) selects(name string, l table.Labels) bool {
	return slices.ContainsFunc(p.locations, func(t locationTest) bool { return t.fails(name, l) == "" })
}

// matches says whether the placement is about an object, and how it has it
// treated: each entry that matches has a say.
func (p *placement) matches(s subject) (matched bool, policy wire.Policy) {
	for i := range p.downsync {
		t := &p.downsync[i]
		if matched && combine(policy, t.policy(p)) == policy || t.fails(s) != "" {
			continue
		}
		if !matched {
			matched, policy = true, t.policy(p)
			continue
		}
		policy = combine(policy, t.policy(p))
	}
	return matched, policy
}

// reach calls fn for the parts of a space that hold all objects the placement
// may match.
func (p *placement) reach(space key.Space, fn func(reach)) {
	for i := range p.downsync {
		p.downsync[i].reach(space, "", fn)
	}
}

// reachByNamespace is reach for the objects that it matches, or not, by the
// labels of a namespace.
func (p *placement) reachByNamespace(space key.Space, namespace string, fn func(reach)) {
	for i := range p.downsync {
		if p.downsync[i].namespaceSelectors != nil {
			p.downsync[i].reach(space, namespace, fn)
		}
	}
}

// placements are those of one space in the order of their names.
type placements []*placement

func (ps placements) find(name string) (int, bool) {
	return slices.BinarySearchFunc(ps, name, func(p *placement, name string) int { return strings.Compare(p.name, name) })
}

// set replaces the placement of a name; nil removes it.
func (ps placements) set(name string, p *placement) placements {
	i, found := ps.find(name)
	switch {
	case p == nil && found:
		return slices.Delete(ps, i, i+1)
	case p == nil:
		return ps
	case found:
		ps[i] = p
		return ps
	}
	return slices.Insert(ps, i, p)
}

// locationLabels are the labels of a location's row; ok is false if it is gone
// or going.
func locationLabels(row *table.Row) (l table.Labels, ok bool) {
	if row == nil || row.Meta.Deleting {
		return nil, false
	}
	return row.Meta.Labels, true
}
