package upsync

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// asks are the born objects that spaces ask for. They do not change once they are made.
type asks struct {
	placing key.Placing
	rules   []rule
	// about has the rules about resources of a name, since spaces may ask for very many others.
	about map[string][]*rule
}

// rule is one entry of a space.
type rule struct {
	space     key.Space
	group     string // "*": any
	resources map[string]struct{}
	// namespaces has, by what they are called at the target, those of the space; nil: all.
	namespaces map[string]string
	names      map[string]struct{} // nil: all
}

// newAsks compiles what settings ask for at a location that puts objects by a rule.
func newAsks(all []wire.Upsync, placing key.Placing) *asks {
	a := &asks{placing: placing, about: map[string][]*rule{}}
	for _, u := range all {
		space := key.Space(u.Space)
		r := rule{space: space, group: u.Group, resources: setOf(u.Resources)}
		if u.Names != nil {
			r.names = setOf(u.Names)
		}
		if u.Namespaces != nil {
			r.namespaces = map[string]string{}
			for _, n := range u.Namespaces {
				r.namespaces[placing.At(key.Object{Space: space, Identity: key.Identity{Resource: key.ConfigMaps, Namespace: n, Name: n}}).Namespace] = n
			}
		}
		a.rules = append(a.rules, r)
	}
	for i := range a.rules {
		for name := range a.rules[i].resources {
			a.about[name] = append(a.about[name], &a.rules[i])
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

// kind says whether objects of a resource are asked for.
func (a *asks) kind(r key.Resource) bool {
	return slices.ContainsFunc(a.about[r.Resource], func(of *rule) bool { return of.kind(r) })
}

// named are the resources that are asked for by group and name.
func (a *asks) named() (all []key.Resource) {
	for i := range a.rules {
		for r := range a.rules[i].resources {
			if a.rules[i].group != "*" {
				all = append(all, key.Resource{Group: a.rules[i].group, Resource: r})
			}
		}
	}
	return all
}

func (r *rule) kind(of key.Resource) bool {
	_, named := r.resources[of.Resource]
	return named && (r.group == "*" || r.group == of.Group)
}

// of are what an object at the target is to the spaces that ask for it: at most one for each.
func (a *asks) of(at key.Identity) (all []key.Object) {
	for _, r := range a.about[at.Resource.Resource] {
		if !r.kind(at.Resource) {
			continue
		}
		o, ok := r.source(a.placing, at)
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

// source is what an object at the target is to the rule's space; false: nothing. Where
// namespaces are Prefixed, a space sees its own, and nothing that is in none.
func (r *rule) source(placing key.Placing, at key.Identity) (key.Object, bool) {
	if r.namespaces == nil {
		return placing.From(r.space, at)
	}
	o := key.Object{Space: r.space, Identity: at}
	var ok bool
	o.Namespace, ok = r.namespaces[at.Namespace]
	return o, ok && at.Namespace != ""
}

func hasSpace(all []key.Object, s key.Space) bool {
	for i := range all {
		if all[i].Space == s {
			return true
		}
	}
	return false
}
