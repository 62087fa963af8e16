package placement

import (
	"encoding/json"
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// placement is one compiled Placement.
type placement struct {
	scope
	// reaches selects the spaces whose objects it places; nil: only its own space.
	reaches *criteria[tenant]
	// tenant is the space for which it was resolved, if it selects spaces.
	tenant    tenant
	suspended bool
	// waits reports whether deletions wait for removal, and afterFinalizers whether objects that are being
	// deleted stay assigned until their finalizers are removed.
	waits, afterFinalizers bool

	treatment wire.Policy
	// upsync holds its upsync entries for locations that admit everything.
	upsync []wire.Upsync
	// names are the location names in its spec, in order.
	names []string
}

// compile compiles the row of a Placement; nil if it is not in effect.
func compile(name key.Placement, row *table.Row) *placement {
	if !acts(row) {
		return nil
	}
	p := &placement{scope: scope{name: name.Name, ref: name.In(name.Space), spec: specOf(row), follows: followsOf(row), admitted: true, isOfRoot: name.Space == key.Root, scheduling: &scheduling{uid: row.Meta.UID}}}
	var spec v1alpha1.PlacementSpec
	if p.spec != "" {
		if err := json.Unmarshal([]byte(p.spec), &spec); err != nil {
			p.problems = append(p.problems, fmt.Sprintf("spec: %v", err))
			return p
		}
	}
	if spec.Spaces != nil && name.Space != key.Root {
		p.problems = append(p.problems, "spaces: only Placements in the space root reach others")
		return p
	}
	if spec.Spaces != nil {
		p.reaches = new(compileSpaces("spaces", spec.Spaces))
		if p.reaches.problem != "" {
			p.problems = append(p.problems, p.reaches.problem)
		}
	}
	p.suspended, p.waits, p.treatment = spec.Suspend, spec.WaitForRemoval, treatment(&spec)
	p.afterFinalizers = spec.OnRemove == v1alpha1.OnRemoveAfterFinalizers
	p.scheduling.tolerations, p.scheduling.pick = spec.Tolerations, spec.Pick
	for _, l := range spec.Locations {
		p.names = append(p.names, l.Names...)
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	p.locations = compileLocations("locations", spec.Locations)
	p.tests = compileDownsync(spec.Downsync, readFollows(p.follows))
	p.yields, p.upsync = compileUpsync(spec.Upsync)
	p.noteProblems()
	return p
}

// matched combines the entries of a placement that match an object.
type matched struct {
	policy  wire.Policy
	returns returns
	// follows are the kinds of references that follow the object.
	follows refs.Kinds
}

// matches reports whether the placement matches an object, and combines the entries that do.
func (p *placement) matches(s subject) (m matched, ok bool) {
	for i := range p.tests {
		t := &p.tests[i]
		if ok && combine(m.policy, t.policy(p)) == m.policy && t.returns <= m.returns && t.follows&^m.follows == 0 || !t.fit(s) {
			continue
		}
		policy := t.policy(p)
		if ok {
			policy = combine(m.policy, policy)
		}
		m, ok = matched{policy, max(m.returns, t.returns), m.follows | t.follows}, true
	}
	return m, ok
}
