package hub_test

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// wanted is a request of the matrix: its verb and resource, independent of its path.
type wanted struct {
	// api is "spaces", "views", "ask", "agent" or "hub"; name that of its space or location.
	api, name string
	verb      string
	thing     thing
	sub       string
	namespace string
	object    string
	// path is asked for instead of a thing.
	path string
}

// thing is a kind of objects, with what the docs say of it.
type thing struct {
	group, version, resource  string
	namespaced                bool
	secret, grant, uneditable bool
}

// The universe of the matrix. Nothing else is asked for, so that a "*" is all of it.
var (
	things = []thing{
		{version: "v1", resource: "pods", namespaced: true},
		{version: "v1", resource: "secrets", namespaced: true, secret: true},
		{version: "v1", resource: "resourcequotas", namespaced: true, uneditable: true},
		{version: "v1", resource: "namespaces"},
		{version: "v1", resource: "nodes"},
		{group: "apps", version: "v1", resource: "deployments", namespaced: true},
		{group: "rbac.authorization.k8s.io", version: "v1", resource: "roles", namespaced: true, uneditable: true},
		{group: "example.org", version: "v1", resource: "widgets", namespaced: true},
		{group: "orrery.dev", version: "v1alpha1", resource: "grants", grant: true, uneditable: true},
		{group: "orrery.dev", version: "v1alpha1", resource: "placements", uneditable: true},
		{group: "orrery.dev", version: "v1alpha1", resource: "locations", uneditable: true},
	}
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}
	spaceNames = []string{"root", "a", "b", "none"}
	discovered = []string{"/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/version", "/healthz"}
)

// oracle decides on requests by reading every Grant. It is slow, and implemented independently of the access
// package.
type oracle struct {
	grants map[key.Space][]v1alpha1.GrantSpec
	labels map[string]map[string]string
}

// person is the user that sends a request.
type person struct {
	name   string
	groups []string
}

// applying returns the Grants for a space that apply to a person.
func (o oracle) applying(p person, space string, everywhere bool) (all []v1alpha1.GrantSpec) {
	for in, grants := range o.grants {
		for _, g := range grants {
			reach := false
			switch {
			case everywhere:
				reach = g.Spaces != nil && g.Spaces.Selector != nil && len(g.Spaces.Selector.MatchLabels) == 0 && len(g.Spaces.Names) == 0
			case g.Spaces == nil:
				reach = string(in) == space
			case space != "root":
				reach = g.Spaces.Names == nil || slices.Contains(g.Spaces.Names, space)
				if g.Spaces.Selector != nil {
					for k, v := range g.Spaces.Selector.MatchLabels {
						reach = reach && o.labels[space][k] == v
					}
				}
			}
			for _, s := range g.Subjects {
				if reach && (s.Kind == "User" && s.Name == p.name || s.Kind == "Group" && slices.Contains(p.groups, s.Name)) {
					all = append(all, g)
					break
				}
			}
		}
	}
	for _, group := range p.groups {
		if role, ok := strings.CutPrefix(group, "orrery:space:"+space+":"); ok && !everywhere {
			all = append(all, v1alpha1.GrantSpec{Roles: []v1alpha1.GrantRole{{Name: v1alpha1.RoleName(role)}}})
		}
	}
	return all
}

// expand is a list of a rule over all that there may be.
func expand(list []string, universe ...string) []string {
	if slices.Contains(list, "*") {
		return universe
	}
	return list
}

// rule reports whether a rule allows a request.
func rule(r v1alpha1.GrantRule, w wanted) bool {
	verbs := expand(r.Verbs, slices.Concat(readVerbs, writeVerbs, []string{"impersonate", w.verb})...)
	if !slices.Contains(verbs, w.verb) || w.path != "" {
		return false
	}
	groups := expand(r.APIGroups, w.thing.group)
	var resources []string
	for _, resource := range r.Resources {
		switch name, sub, found := strings.Cut(resource, "/"); {
		case resource == "*":
			resources = append(resources, w.thing.resource, w.thing.resource+"/"+w.sub)
		case found && name == "*":
			resources = append(resources, w.thing.resource+"/"+sub)
		default:
			resources = append(resources, resource)
		}
	}
	resource := w.thing.resource
	if w.sub != "" {
		resource += "/" + w.sub
	}
	return slices.Contains(groups, w.thing.group) && slices.Contains(resources, resource) &&
		(r.ResourceNames == nil || slices.Contains(r.ResourceNames, w.object)) &&
		(r.Namespaces == nil || slices.Contains(r.Namespaces, w.namespace))
}

// roleHas reports whether a role in a space allows a request, by its documentation.
func roleHas(r v1alpha1.GrantRole, space string, w wanted) bool {
	if w.path != "" || r.Namespaces != nil && !slices.Contains(r.Namespaces, w.namespace) {
		return false
	}
	read := slices.Contains(readVerbs, w.verb)
	ofLocation := func(subs ...string) bool { return w.thing.group == "orrery.dev" && slices.Contains(subs, w.sub) }
	if w.thing.resource == "namespaces" && r.Namespaces != nil && !read {
		return false
	}
	switch r.Name {
	case v1alpha1.RoleView:
		return read && !w.thing.secret && !w.thing.grant && !ofLocation("content", "live", "livesecrets")
	case v1alpha1.RoleEdit:
		if read {
			return !w.thing.grant && !ofLocation("content", "livesecrets")
		}
		return slices.Contains(writeVerbs, w.verb) && (w.thing.namespaced || w.thing.resource == "namespaces") && !w.thing.uneditable
	}
	return space != "root" || read || slices.Contains(writeVerbs, w.verb)
}

// isBasic reports whether a request is allowed to every user with any right.
func isBasic(w wanted) bool {
	return slices.Contains(discovered, w.path) && w.verb == "get" ||
		w.path == "" && w.thing.resource == "locations" && w.sub == "" && slices.Contains(readVerbs, w.verb)
}

// holds reports whether a person is allowed a request in a space.
func (o oracle) isAllowed(p person, space string, everywhere bool, w wanted) bool {
	for _, g := range o.applying(p, space, everywhere) {
		right := len(g.Roles) > 0
		for _, r := range g.Rules {
			right = right || len(r.Resources) > 0 && slices.ContainsFunc(r.Verbs, func(v string) bool { return !strings.HasPrefix(v, "impersonate") })
			if rule(r, w) {
				return true
			}
			for _, url := range r.NonResourceURLs {
				if w.path != "" && space == "root" && !everywhere && slices.Contains(expand(r.Verbs, w.verb), w.verb) &&
					(url == w.path || strings.HasSuffix(url, "*") && strings.HasPrefix(w.path, url[:len(url)-1])) {
					return true
				}
			}
		}
		for _, r := range g.Roles {
			if roleHas(r, space, w) {
				return true
			}
		}
		if right && isBasic(w) {
			return true
		}
	}
	return false
}

// allows reports whether a person may send a request.
func (o oracle) allows(p person, w wanted) bool {
	if slices.Contains(p.groups, "system:masters") {
		return true
	}
	agent := slices.Contains(p.groups, "orrery:locations") && p.name == "orrery:location:"+w.name
	switch w.api {
	case "spaces":
		return o.within(p, w.name, w)
	case "reports":
		return o.allowsReports(p, w)
	case "views":
		if !slices.Contains(readVerbs, w.verb) {
			return false
		}
		verbs := []string{w.verb}
		if w.path != "" {
			verbs = readVerbs
		}
		return agent || slices.ContainsFunc(verbs, func(verb string) bool {
			content := wanted{verb: verb, thing: thing{group: "orrery.dev", resource: "locations"}, sub: "content", object: w.name}
			return o.isAllowed(p, "root", false, content)
		})
	case "hub":
		// The response contains only the tokens that the person may see.
		if w.path == "/admin/v1/tokens" || w.path == "/admin/v1/tokens/x" {
			return true
		}
	case "ask":
		return o.isAllowed(p, w.name, false, wanted{verb: "get", path: "/version"}) && w.verb == "get"
	case "agent":
		return agent
	}
	return o.isAllowed(p, "root", false, w)
}

// within reports whether a person is allowed a request in a space, or in all of them.
func (o oracle) within(p person, space string, w wanted) bool {
	if space == "*" {
		return (slices.Contains(readVerbs, w.verb) || isBasic(w)) && o.isAllowed(p, "root", false, w) && o.isAllowed(p, "", true, w)
	}
	return o.isAllowed(p, space, false, w)
}

// allowsReports reports whether a person may read the reports of a location about a space, whose names are
// SPACE/LOCATION.
func (o oracle) allowsReports(p person, w wanted) bool {
	space, location, _ := strings.Cut(w.name, "/")
	if location == "*" {
		location, w.object = "", strings.TrimPrefix(w.object, "edge.")
	}
	if space == "*" {
		w.namespace = strings.TrimPrefix(w.namespace, "a--")
		if w.namespace == "" {
			w.object = strings.TrimPrefix(w.object, "a--")
		}
	}
	if !slices.Contains(readVerbs, w.verb) {
		return false
	}
	return slices.ContainsFunc(readVerbs, func(verb string) bool {
		content := wanted{verb: verb, thing: thing{group: "orrery.dev", resource: "reports"}, sub: "content", object: location}
		if !o.within(p, space, content) {
			return false
		}
		return w.path != "" || verb == w.verb && o.within(p, space, w)
	})
}

// mayActAs reports whether a person may send requests as another.
func (o oracle) mayActAs(p, other person) bool {
	if slices.Contains(p.groups, "system:masters") {
		return true
	}
	if slices.Contains(other.groups, "orrery:locations") {
		return false // no person here may act as this group
	}
	names := map[string]string{other.name: "users"}
	for _, group := range other.groups {
		if group == "system:authenticated" {
			continue
		}
		names[group] = "groups"
	}
	for name, resource := range names {
		request := wanted{verb: "impersonate", thing: thing{resource: resource}, object: name}
		var may bool
		for _, g := range o.applying(p, "root", false) {
			may = may || slices.ContainsFunc(g.Rules, func(r v1alpha1.GrantRule) bool { return rule(r, request) })
		}
		if !may {
			return false
		}
	}
	return true
}
