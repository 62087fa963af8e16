package upsync

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// requests are the rules by which spaces request upsynced objects. They are immutable.
type requests struct {
	placing key.Placing
	rules   []rule
	// byResource has the rules by the name of a resource, since there may be very many rules about others.
	byResource map[string][]*rule
}

// rule is one entry of a space.
type rule struct {
	space     key.Space
	group     string // "*": any
	resources map[string]struct{}
	// namespaces has the namespaces of the space by their names at the target; nil: all.
	namespaces map[string]string
	names      map[string]struct{} // nil: all
}

// newRequests compiles the requests in the settings of a location with a namespace mapping.
func newRequests(all []wire.Upsync, placing key.Placing) *requests {
	a := &requests{placing: placing, byResource: map[string][]*rule{}}
	for _, u := range all {
		space := key.Space(u.Space)
		r := rule{space: space, group: u.Group, resources: setOf(u.Resources)}
		if u.Names != nil {
			r.names = setOf(u.Names)
		}
		if u.Namespaces != nil {
			r.namespaces = map[string]string{}
			for _, n := range u.Namespaces {
				r.namespaces[placing.TargetIdentity(key.Object{Space: space, Identity: key.Identity{Resource: key.ConfigMaps, Namespace: n, Name: n}}).Namespace] = n
			}
		}
		a.rules = append(a.rules, r)
	}
	for i := range a.rules {
		for name := range a.rules[i].resources {
			a.byResource[name] = append(a.byResource[name], &a.rules[i])
		}
	}
	return a
}

func setOf(all []string) map[string]struct{} {
	set := make(map[string]struct{}, len(all))
	for _, s := range all {
		set[s] = struct{}{}
	}
	return set
}

// include reports whether a space requests objects of a resource.
func (a *requests) include(r key.Resource) bool {
	return slices.ContainsFunc(a.byResource[r.Resource], func(one *rule) bool { return one.includes(r) })
}

// named returns the resources that are requested by group and name.
func (a *requests) named() (all []key.Resource) {
	for i := range a.rules {
		for r := range a.rules[i].resources {
			if a.rules[i].group != "*" {
				all = append(all, key.Resource{Group: a.rules[i].group, Resource: r})
			}
		}
	}
	return all
}

func (r *rule) includes(resource key.Resource) bool {
	_, named := r.resources[resource.Resource]
	return named && (r.group == "*" || r.group == resource.Group)
}

// sources returns an object at the target as the spaces that request it have it: at most one object for each.
func (a *requests) sources(target key.Identity) (all []key.Object) {
	for _, r := range a.byResource[target.Resource.Resource] {
		if !r.includes(target.Resource) {
			continue
		}
		o, ok := r.source(a.placing, target)
		if !ok {
			continue
		}
		if r.names != nil {
			if _, named := r.names[o.Name]; !named {
				continue
			}
		}
		if !hasSpace(all, r.space) {
			all = append(all, o)
		}
	}
	return all
}

// source returns an object at the target as the rule's space has it; false: the space can't see it. With a
// namespace mapping, a space sees the objects in its own namespaces, and none outside of namespaces.
func (r *rule) source(placing key.Placing, target key.Identity) (key.Object, bool) {
	if r.namespaces == nil {
		return placing.From(r.space, target)
	}
	o := key.Object{Space: r.space, Identity: target}
	var ok bool
	o.Namespace, ok = r.namespaces[target.Namespace]
	return o, ok && target.Namespace != ""
}

func hasSpace(all []key.Object, s key.Space) bool {
	for i := range all {
		if all[i].Space == s {
			return true
		}
	}
	return false
}
