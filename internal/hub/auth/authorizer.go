package auth

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Authorizer authorizes requests by the root in their context. Members of system:masters have all
// rights, an agent has those of its own location, and all users those of Grants. It uses the
// present table, and is safe for concurrent use.
type Authorizer struct {
	grants *Grants
	table  *table.Table
	// catalog returns the kinds of a space.
	catalog func(key.Space) *kinds.Catalog
}

var _ authorizer.Authorizer = (*Authorizer)(nil)

// impersonates reports whether a verb is for impersonation.
func impersonates(verb string) bool { return strings.HasPrefix(verb, "impersonate") }

// Authorize implements authorizer.Authorizer. A stream that a Grant allows depends on that Grant.
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if z.mayAll(a.GetUser()) {
		return authorizer.DecisionAllow, "", nil
	}
	conditions, ok := z.decide(RootOf(ctx), a)
	if !ok {
		return authorizer.DecisionNoOpinion, lackingInExportView(RootOf(ctx), a), nil
	}
	for _, p := range conditions {
		restOn(ctx, p)
	}
	return authorizer.DecisionAllow, "", nil
}

// mayAll reports whether a user has all rights.
func (z *Authorizer) mayAll(who user.Info) bool {
	return who != nil && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// decide reports whether a request at a root is allowed, with its stream conditions.
func (z *Authorizer) decide(root route.Root, a authorizer.Attributes) ([]table.Condition, bool) {
	who, q := a.GetUser(), questionOf(a)
	if who == nil {
		return nil, false
	}
	if impersonates(q.verb) {
		return z.inSpace(key.Root, who, &q)
	}
	if l, ok := locationOf(who); ok && z.ofAgent(l, who, root, &q) {
		return nil, true
	}
	switch root.API {
	case route.Spaces:
		return z.within(key.Space(root.Name), who, &q)
	case route.Views:
		return z.inView(root, who, &q)
	case route.ReportViews:
		return z.inReports(root, who, &q)
	case route.Exports, route.Slices:
		return z.inExportView(root, who, &q)
	case route.Queries:
		if _, question := route.Parse(a.GetPath()); q.verb != "get" && (q.verb != "post" || question != route.Render) {
			return nil, false
		}
		// The handler decides what the response contains; nothing is written.
		return z.enters(key.Space(root.Name), who)
	case "":
		if !q.isPath {
			return nil, false
		}
		return z.byGrant(key.Root, who, (&asking{question: &q, space: key.Root, isNamespaced: never}).allows)
	}
	return nil, false
}

// ofAgent reports whether a request is a call of the location's agent. Only the agent of the whole
// location may read its whole content.
func (z *Authorizer) ofAgent(l key.Location, who user.Info, root route.Root, q *question) bool {
	switch root {
	case route.Agent(l):
		return q.isPath
	case route.View(l):
		row, _ := z.table.Get(l.Key())
		return slices.Contains(reads, q.verb) && len(who.GetExtra()[shardExtra]) == 0 && presence.ShardsOf(row) == 1
	}
	return false
}

// inView decides by the right to the content of a location, which is what its API contains.
func (z *Authorizer) inView(root route.Root, who user.Info, q *question) ([]table.Condition, bool) {
	if !slices.Contains(reads, q.verb) {
		return nil, false
	}
	verbs := []string{q.verb}
	if q.isPath { // discovery, for users with any right to read
		verbs = reads
	}
	for _, verb := range verbs {
		content := newQuestion(verb, key.Locations.Group, key.Locations.Resource, ContentSubresource, "", root.Name)
		if conditions, ok := z.inSpace(key.Root, who, &content); ok {
			return conditions, true
		}
	}
	return nil, false
}

// inReports decides about reads of reports. The user needs the right to reports in the space, and
// the right to read the object there under its name in the space. A user that may not get Secrets
// of a space does not get reports about them either.
func (z *Authorizer) inReports(root route.Root, who user.Info, q *question) ([]table.Condition, bool) {
	s, l, ok := root.Reported()
	if !ok || !slices.Contains(reads, q.verb) {
		return nil, false
	}
	wide := key.Wide{Spaces: s == key.AllSpaces, Locations: l == key.AllLocations}
	if wide.Locations {
		l = "" // the right to some names is not the right to all
	}
	verbs := []string{q.verb}
	if q.isPath { // discovery, for users with any right to read
		verbs = reads
	}
	for _, verb := range verbs {
		content := newQuestion(verb, v1alpha1.Group, ReportsResource, ContentSubresource, "", string(l))
		conditions, ok := z.within(s, who, &content)
		if !ok || q.isPath {
			if ok {
				return conditions, true
			}
			continue
		}
		called, ok := wide.Split(q.namespace != "", q.namespace, q.name)
		if !ok || wide.Spaces && q.namespace == "" && q.verb != "get" {
			// The object does not exist, or whether the kind is namespaced decides which object it
			// is. Then the right to all objects is needed.
			called = key.Called{}
		}
		object := newQuestion(verb, q.group, q.resource, q.sub, called.Namespace, called.Name)
		more, ok := z.within(s, who, &object)
		return slices.Concat(conditions, more), ok
	}
	return nil, false
}

// within decides about a request in a space or, for AllSpaces, in all of them together.
func (z *Authorizer) within(s key.Space, who user.Info, q *question) ([]table.Condition, bool) {
	if s == key.AllSpaces {
		return z.inAllSpaces(who, q)
	}
	return z.inSpace(s, who, q)
}

// inAllSpaces decides about reads of all spaces together, including root.
func (z *Authorizer) inAllSpaces(who user.Info, q *question) ([]table.Condition, bool) {
	if !isBasic(q) && !slices.Contains(reads, q.verb) {
		return nil, false
	}
	inRoot, ok := z.inSpace(key.Root, who, q)
	if !ok {
		return nil, false
	}
	elsewhere, ok := z.byGrant(key.AllSpaces, who, (&asking{question: q, space: key.AllSpaces, isNamespaced: never}).allows)
	return slices.Concat(inRoot, elsewhere), ok
}

// inSpace decides about a request in a space, whether that exists or not.
func (z *Authorizer) inSpace(s key.Space, who user.Info, q *question) ([]table.Condition, bool) {
	a := asking{question: q, space: s, isNamespaced: func(group, resource string) bool { return s != key.AllSpaces && z.namespaced(s, group, resource) }}
	if !impersonates(q.verb) {
		for _, group := range who.GetGroups() {
			if r, ok := roleOfGroup(group, s); ok && (isBasic(q) || r.allows(q, a.isNamespaced)) {
				return nil, true
			}
		}
	}
	return z.byGrant(s, who, a.allows)
}

// enters decides whether a user has any right in a space.
func (z *Authorizer) enters(s key.Space, who user.Info) ([]table.Condition, bool) {
	locations := newQuestion("list", key.Locations.Group, key.Locations.Resource, "", "", "")
	return z.inSpace(s, who, &locations)
}

// asking is a request in a space.
type asking struct {
	*question
	space        key.Space
	isNamespaced func(group, resource string) bool
}

// allows reports whether a Grant for the space allows the request.
func (a *asking) allows(g *grant) bool {
	if g.isRight && isBasic(a.question) {
		return true
	}
	if a.isPath && (a.space != key.Root || !g.own()) {
		return false
	}
	for i := range g.spec.Rules {
		if ruleAllows(&g.spec.Rules[i], a.question) {
			return true
		}
	}
	if impersonates(a.verb) {
		return false // no role allows that
	}
	for _, r := range g.spec.Roles {
		if (role{r.Name, a.space, r.Namespaces}).allows(a.question, a.isNamespaced) {
			return true
		}
	}
	return false
}

// byGrant finds a Grant that applies to a space (AllSpaces: to all possible spaces), has the user
// as subject, and suffices.
func (z *Authorizer) byGrant(s key.Space, who user.Info, suffices func(*grant) bool) ([]table.Condition, bool) {
	for g := range z.grantsFor(s, who) {
		if suffices(g) {
			return z.conditions(g, s, who, suffices), true
		}
	}
	return nil, false
}

// grantsFor yields the Grants that apply to a space and have the user as subject.
func (z *Authorizer) grantsFor(s key.Space, who user.Info) func(yield func(*grant) bool) {
	return func(yield func(*grant) bool) {
		if z.grants == nil {
			return
		}
		spaces := []key.Space{s, key.AllSpaces}
		if s == key.Root || s == key.AllSpaces { // root has no other Grants, and AllSpaces is in the list
			spaces = spaces[:1]
		}
		var space *table.Row // read when needed
		for _, grantSpace := range spaces {
			for i := -1; i < len(who.GetGroups()); i++ {
				h := holder{grantSpace, v1alpha1.GrantSubjectUser, who.GetName()}
				if i >= 0 {
					h.kind, h.name = v1alpha1.GrantSubjectGroup, who.GetGroups()[i]
				}
				for _, g := range z.grants.grantsOf(h) {
					if g.byLabels() && space == nil && s != key.AllSpaces {
						space, _ = z.table.Get(s.Key())
					}
					if isAbout(g, s, space) && !yield(g) {
						return
					}
				}
			}
		}
	}
}

// isAbout reports whether a Grant applies to a space with a row; for AllSpaces, to any possible
// space.
func isAbout(g *grant, s key.Space, row *table.Row) bool {
	if s == key.AllSpaces {
		return g.everywhere()
	}
	return g.reaches(s, row)
}

// conditions returns the stream condition that a Grant still suffices. An edit of the Grant that
// does not change this ends no stream.
func (z *Authorizer) conditions(g *grant, s key.Space, who user.Info, suffices func(*grant) bool) []table.Condition {
	isMet := func(now *grant, space *table.Row) bool {
		return now != nil && now.hasSubject(who) && isAbout(now, s, space) && suffices(now)
	}
	all := []table.Condition{{Key: g.entry.Key, IsMet: func(row *table.Row) bool {
		var space *table.Row
		if s != key.AllSpaces {
			space, _ = z.table.Get(s.Key())
		}
		return isMet(z.grants.grantOf(row), space)
	}}}
	if g.byLabels() {
		all = append(all, table.Condition{Key: s.Key(), IsMet: func(space *table.Row) bool {
			row, _ := z.table.Get(g.entry.Key)
			return isMet(z.grants.grantOf(row), space)
		}})
	}
	return all
}

// namespaced reports whether a resource of a space is namespaced.
func (z *Authorizer) namespaced(s key.Space, group, resource string) bool {
	if z.catalog == nil {
		return false
	}
	kind, ok := z.catalog(s).ForStorage(key.NewResource(group, resource))
	return ok && kind.Namespaced
}

func never(string, string) bool { return false }

// discovery lists the paths of a space that each user with any right there may read. A path that
// ends with a slash is a prefix.
var discovery = []string{
	"/", "/api", "/api/", "/apis", "/apis/", "/openapi", "/openapi/", "/version", "/version/", route.Healthz, route.Livez, route.Readyz,
}

// isBasic reports whether each user with any right in a space is allowed to do something:
// discovery, reviews of their own rights, and reading the list of locations.
func isBasic(q *question) bool {
	if q.isPath {
		return q.verb == "get" && slices.ContainsFunc(discovery, func(path string) bool {
			return q.path == path || len(path) > 1 && strings.HasSuffix(path, "/") && strings.HasPrefix(q.path, path)
		})
	}
	switch q.whole {
	case "selfsubjectreviews":
		return q.group == "authentication.k8s.io" && q.verb == "create"
	case "selfsubjectaccessreviews", "selfsubjectrulesreviews":
		return q.group == "authorization.k8s.io" && q.verb == "create"
	case key.Locations.Resource:
		return q.group == key.Locations.Group && slices.Contains(reads, q.verb)
	}
	return false
}
