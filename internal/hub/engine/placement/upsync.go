package placement

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// compileUpsync compiles a Placement's upsync: tests of the objects in its space that it
// leaves to its locations, and what is asked of these.
func compileUpsync(entries []v1alpha1.Upsync) (tests []objectTest, asks []wire.Upsync) {
	for i, e := range entries {
		field := fmt.Sprintf("upsync[%d]", i)
		t := compileTest(field, v1alpha1.ObjectTest{APIGroup: &e.APIGroup, Resources: e.Resources, Namespaces: e.Namespaces, Names: e.Names})
		if len(e.Resources) == 0 || slices.Contains(e.Resources, wildcard) { // which the schema refuses
			t.problem = field + ".resources: want names of resources"
		}
		tests = append(tests, t)
		if t.problem != "" {
			continue
		}
		group := e.APIGroup
		if group != wildcard {
			group = key.NewResource(group, "").Group
		}
		asks = append(asks, wire.Upsync{Group: group, Resources: sorted(e.Resources), Namespaces: sorted(e.Namespaces), Names: sorted(e.Names)})
	}
	return tests, asks
}

// sorted are names in order, each once; nil for none.
func sorted(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	all := slices.Clone(names)
	slices.Sort(all)
	return slices.Compact(all)
}

// asks are the locations of which a placement asks for what its upsync matches: those that
// an object gets which all have already that take no more. Nothing comes to a location by
// this, so it is neither barred by taints that have no more objects come, nor held while the
// placement is suspended.
func (p *placement) asks(sites map[key.Location]*site, sets *locationSets) *locationSet {
	if !p.seating.particular() {
		return p.set
	}
	return sets.of(p.choose(p.seating.barred.names, sites), nil)
}

// yielding says whether a placement asks for objects like one of its space.
func (p *placement) yielding(s subject) bool {
	return slices.ContainsFunc(p.yields, func(t objectTest) bool { return t.fit(s) })
}

// askedOf are the locations where asks of an object's space match it, whatever they admit;
// nil: none.
func (e *Engine) askedOf(s subject) *locationSet {
	var all []*locationSet
	for _, a := range e.upsyncs.by[s.Space] {
		if a.yielding(s) {
			all = append(all, a.at)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return e.sets.of(union(all), nil)
}

// mutes says whether a space sees nothing of a location: some of what it has there, a
// ServiceAccount does in its name, while the agent sees with its own rights.
func (a *admit) mutes(t tenant) bool {
	if a == nil {
		return false
	}
	for i := range a.entries {
		switch e := &a.entries[i]; {
		case e.objects.problem != "":
			return false
		case e.account != "" && e.spaces.fit(t):
			return true
		}
	}
	return false
}

// cut are the parts of an ask of a space that a location admits, which is not mute.
func (a *admit) cut(t tenant, ask wire.Upsync) (parts []wire.Upsync) {
	if a == nil {
		return []wire.Upsync{ask}
	}
	for i := range a.entries {
		e := &a.entries[i]
		if e.objects.problem != "" {
			break
		}
		if e.spaces.fit(t) {
			parts = append(parts, e.cut(ask)...)
		}
	}
	return parts
}

// cut are the parts of an ask that an entry matches.
func (e *admitEntry) cut(ask wire.Upsync) (parts []wire.Upsync) {
	if e.namespaces != nil {
		if ask.Namespaces == nil {
			ask.Namespaces = sorted(e.namespaces)
		} else {
			ask.Namespaces = slices.DeleteFunc(slices.Clone(ask.Namespaces), func(n string) bool { return !slices.Contains(e.namespaces, n) })
		}
		if len(ask.Namespaces) == 0 { // nil would be all
			return nil
		}
	}
	if e.kinds == nil {
		return []wire.Upsync{ask}
	}
	for _, k := range e.kinds {
		part := ask
		if g := k.APIGroup; g != nil && *g != wildcard {
			group := key.NewResource(*g, "").Group
			if part.Group != wildcard && part.Group != group {
				continue
			}
			part.Group = group
		}
		if k.Resources != nil && !slices.Contains(k.Resources, wildcard) {
			part.Resources = slices.DeleteFunc(slices.Clone(part.Resources), func(r string) bool { return !slices.Contains(k.Resources, r) })
		}
		if len(part.Resources) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// asksFor says whether an ask is about an object of its space.
func asksFor(ask wire.Upsync, id key.Identity) bool {
	if ask.Group != wildcard && ask.Group != id.Group || !slices.Contains(ask.Resources, id.Resource.Resource) {
		return false
	}
	if ask.Namespaces != nil && !slices.Contains(ask.Namespaces, id.Namespace) { // "" is none of them
		return false
	}
	return ask.Names == nil || slices.Contains(ask.Names, id.Name)
}
