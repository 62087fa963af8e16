package placement

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// compileUpsync compiles a Placement's upsync: the tests for objects that it leaves to its
// locations, and the entries that these get.
func compileUpsync(entries []v1alpha1.Upsync) (tests []objectTest, upsyncs []wire.Upsync) {
	for i, e := range entries {
		field := fmt.Sprintf("upsync[%d]", i)
		t := compileTest(field, v1alpha1.ObjectTest{APIGroup: &e.APIGroup, Resources: e.Resources, Namespaces: e.Namespaces, Names: e.Names})
		if len(e.Resources) == 0 || slices.Contains(e.Resources, wildcard) { // the schema refuses it
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
		upsyncs = append(upsyncs, wire.Upsync{Group: group, Resources: sorted(e.Resources), Namespaces: sorted(e.Namespaces), Names: sorted(e.Names)})
	}
	return tests, upsyncs
}

// sorted returns names in order, without duplicates; nil if there are none.
func sorted(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	all := slices.Clone(names)
	slices.Sort(all)
	return slices.Compact(all)
}

// upsyncLocations returns the locations that get the upsync entries of a placement. Upsync brings
// no object to a location. So taints that bar further objects do not matter, nor does suspension.
func (p *placement) upsyncLocations(sites map[key.Location]*site, sets *locationSets) *locationSet {
	if !p.scheduling.particular() {
		return p.set
	}
	return sets.intern(p.choose(p.scheduling.barred.names, sites), nil)
}

// yielding reports whether the upsync of a placement matches an object of its space.
func (p *placement) yielding(s subject) bool {
	return slices.ContainsFunc(p.yields, func(t objectTest) bool { return t.fit(s) })
}

// upsyncingOf returns the locations with upsync entries that match an object, whatever they admit;
// nil if there are none.
func (e *Engine) upsyncingOf(s subject) *locationSet {
	var all []*locationSet
	for _, a := range e.upsyncs.bySpace[s.Space] {
		if a.yielding(s) {
			all = append(all, a.locations)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return e.sets.intern(union(all), nil)
}

// mutes reports whether a location reports no upsynced objects to a space. It does not if a
// ServiceAccount acts there for any objects of the space, because the agent would read with its own
// rights.
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

// cut returns the parts of an upsync entry of a space that a location admits. The location must not
// be mute.
func (a *admit) cut(t tenant, entry wire.Upsync) (matching []wire.Upsync) {
	if a == nil {
		return []wire.Upsync{entry}
	}
	for i := range a.entries {
		admitted := &a.entries[i]
		if admitted.objects.problem != "" {
			break
		}
		if admitted.spaces.fit(t) {
			matching = append(matching, admitted.cut(entry)...)
		}
	}
	return matching
}

// cut returns the parts of an upsync entry that this entry admits.
func (e *admitEntry) cut(entry wire.Upsync) (matching []wire.Upsync) {
	if e.namespaces != nil {
		if entry.Namespaces == nil {
			entry.Namespaces = sorted(e.namespaces)
		} else {
			entry.Namespaces = slices.DeleteFunc(slices.Clone(entry.Namespaces), func(n string) bool { return !slices.Contains(e.namespaces, n) })
		}
		if len(entry.Namespaces) == 0 { // nil would mean all
			return nil
		}
	}
	if e.kinds == nil {
		return []wire.Upsync{entry}
	}
	for _, k := range e.kinds {
		match := entry
		if g := k.APIGroup; g != nil && *g != wildcard {
			group := key.NewResource(*g, "").Group
			if match.Group != wildcard && match.Group != group {
				continue
			}
			match.Group = group
		}
		if k.Resources != nil && !slices.Contains(k.Resources, wildcard) {
			match.Resources = slices.DeleteFunc(slices.Clone(match.Resources), func(r string) bool { return !slices.Contains(k.Resources, r) })
		}
		if len(match.Resources) > 0 {
			matching = append(matching, match)
		}
	}
	return matching
}

// upsyncMatches reports whether an upsync entry matches an object of its space.
func upsyncMatches(entry wire.Upsync, id key.Identity) bool {
	if entry.Group != wildcard && entry.Group != id.Group || !slices.Contains(entry.Resources, id.Resource.Resource) {
		return false
	}
	if entry.Namespaces != nil && !slices.Contains(entry.Namespaces, id.Namespace) { // "" never matches
		return false
	}
	return entry.Names == nil || slices.Contains(entry.Names, id.Name)
}
