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

// Authorizer decides who may do what at the root that is in the context: members of
// system:masters everything, an agent what is about its own location, and everybody
// what Grants allow them. It answers from the table as it is, and is safe for
// concurrent use.
type Authorizer struct {
	grants *Grants
	table  *table.Table
	// catalog has the kinds of a space.
	catalog func(key.Space) *kinds.Catalog
}

var _ authorizer.Authorizer = (*Authorizer)(nil)

// impersonates says that a verb is one of acting as somebody else.
func impersonates(verb string) bool { return strings.HasPrefix(verb, "impersonate") }

// Authorize implements authorizer.Authorizer. What is allowed rests on the Grant that
// allows it.
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if z.mayAll(a.GetUser()) {
		return authorizer.DecisionAllow, "", nil
	}
	premises, ok := z.decide(RootOf(ctx), a)
	if !ok {
		return authorizer.DecisionNoOpinion, lackingOnShelf(RootOf(ctx), a), nil
	}
	for _, p := range premises {
		restOn(ctx, p)
	}
	return authorizer.DecisionAllow, "", nil
}

// mayAll says that somebody may do everything.
func (z *Authorizer) mayAll(who user.Info) bool {
	return who != nil && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// decide says whether a request at a root is allowed, and by what.
func (z *Authorizer) decide(root route.Root, a authorizer.Attributes) ([]table.Premise, bool) {
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
		return z.onShelf(root, who, &q)
	case route.Questions:
		if _, question := route.Of(a.GetPath()); q.verb != "get" && (q.verb != "post" || question != route.Render) {
			return nil, false
		}
		// What they are told is for the answer to say; nothing is written.
		return z.enters(key.Space(root.Name), who)
	case "":
		if !q.isPath {
			return nil, false
		}
		return z.byGrant(key.Root, who, (&asking{question: &q, space: key.Root, isNamespaced: never}).by)
	}
	return nil, false
}

// ofAgent says whether a request is one of those that a location's agent makes. All that the
// location has may be read by the agent of the whole alone.
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

// inView decides by the right to the content of a location: its API is what that is.
func (z *Authorizer) inView(root route.Root, who user.Info, q *question) ([]table.Premise, bool) {
	if !slices.Contains(reads, q.verb) {
		return nil, false
	}
	verbs := []string{q.verb}
	if q.isPath { // discovery, for who may read in any way
		verbs = reads
	}
	for _, verb := range verbs {
		content := about(verb, key.Locations.Group, key.Locations.Resource, ContentSubresource, "", root.Name)
		if premises, ok := z.inSpace(key.Root, who, &content); ok {
			return premises, true
		}
	}
	return nil, false
}

// inReports decides about reads of what locations report: it takes the right to reports in
// the space, and the one to read there what is read here, by the names that it has there. Who
// may not get Secrets of a space does not get what is reported of them either.
func (z *Authorizer) inReports(root route.Root, who user.Info, q *question) ([]table.Premise, bool) {
	s, l, ok := root.Reported()
	if !ok || !slices.Contains(reads, q.verb) {
		return nil, false
	}
	wide := key.Wide{Spaces: s == key.AllSpaces, Locations: l == key.AllLocations}
	if wide.Locations {
		l = "" // those of some names are not all
	}
	verbs := []string{q.verb}
	if q.isPath { // discovery, for who may read in any way
		verbs = reads
	}
	for _, verb := range verbs {
		content := about(verb, v1alpha1.Group, ReportsResource, ContentSubresource, "", string(l))
		premises, ok := z.within(s, who, &content)
		if !ok || q.isPath {
			if ok {
				return premises, true
			}
			continue
		}
		called, ok := wide.Split(q.namespace != "", q.namespace, q.name)
		if !ok || wide.Spaces && q.namespace == "" && q.verb != "get" {
			// There is nothing of that name, or it depends on whether the kind is in namespaces
			// which object it is: then it takes the right to all.
			called = key.Called{}
		}
		object := about(verb, q.group, q.resource, q.sub, called.Namespace, called.Name)
		more, ok := z.within(s, who, &object)
		return slices.Concat(premises, more), ok
	}
	return nil, false
}

// within decides what somebody may do in a space or, for AllSpaces, in all of them at once.
func (z *Authorizer) within(s key.Space, who user.Info, q *question) ([]table.Premise, bool) {
	if s == key.AllSpaces {
		return z.inAllSpaces(who, q)
	}
	return z.inSpace(s, who, q)
}

// inAllSpaces decides about reads of all spaces, root included, at once.
func (z *Authorizer) inAllSpaces(who user.Info, q *question) ([]table.Premise, bool) {
	if !isBasic(q) && !slices.Contains(reads, q.verb) {
		return nil, false
	}
	inRoot, ok := z.inSpace(key.Root, who, q)
	if !ok {
		return nil, false
	}
	elsewhere, ok := z.byGrant(key.AllSpaces, who, (&asking{question: q, space: key.AllSpaces, isNamespaced: never}).by)
	return slices.Concat(inRoot, elsewhere), ok
}

// inSpace decides what somebody may do in a space, whether there is one of that name
// or not.
func (z *Authorizer) inSpace(s key.Space, who user.Info, q *question) ([]table.Premise, bool) {
	a := asking{question: q, space: s, isNamespaced: func(group, resource string) bool { return s != key.AllSpaces && z.namespaced(s, group, resource) }}
	if !impersonates(q.verb) {
		for _, group := range who.GetGroups() {
			if r, ok := roleOfGroup(group, s); ok && (isBasic(q) || r.allows(q, a.isNamespaced)) {
				return nil, true
			}
		}
	}
	return z.byGrant(s, who, a.by)
}

// enters decides whether somebody has any right in a space.
func (z *Authorizer) enters(s key.Space, who user.Info) ([]table.Premise, bool) {
	locations := about("list", key.Locations.Group, key.Locations.Resource, "", "", "")
	return z.inSpace(s, who, &locations)
}

// asking is a question about a space.
type asking struct {
	*question
	space        key.Space
	isNamespaced func(group, resource string) bool
}

// by says whether a Grant that is about the space allows what is asked.
func (a *asking) by(g *grant) bool {
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
		return false // no role has that
	}
	for _, r := range g.spec.Roles {
		if (role{r.Name, a.space, r.Namespaces}).allows(a.question, a.isNamespaced) {
			return true
		}
	}
	return false
}

// byGrant looks for a Grant that is about a space (AllSpaces: about all that there may
// be), concerns somebody and suffices.
func (z *Authorizer) byGrant(s key.Space, who user.Info, suffices func(*grant) bool) ([]table.Premise, bool) {
	for g := range z.about(s, who) {
		if suffices(g) {
			return z.premises(g, s, who, suffices), true
		}
	}
	return nil, false
}

// about are the Grants that concern somebody and are about a space.
func (z *Authorizer) about(s key.Space, who user.Info) func(yield func(*grant) bool) {
	return func(yield func(*grant) bool) {
		if z.grants == nil {
			return
		}
		spaces := []key.Space{s, key.AllSpaces}
		if s == key.Root || s == key.AllSpaces { // the one has no others, the other is the second
			spaces = spaces[:1]
		}
		var space *table.Row // read when it matters
		for _, of := range spaces {
			for i := -1; i < len(who.GetGroups()); i++ {
				h := holder{of, v1alpha1.GrantSubjectUser, who.GetName()}
				if i >= 0 {
					h.kind, h.name = v1alpha1.GrantSubjectGroup, who.GetGroups()[i]
				}
				for _, g := range z.grants.of(h) {
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

// isAbout says whether a Grant is about a space whose row is given; of AllSpaces, that
// it is about any there may be.
func isAbout(g *grant, s key.Space, row *table.Row) bool {
	if s == key.AllSpaces {
		return g.everywhere()
	}
	return g.reaches(s, row)
}

// premises are that a Grant still suffices, as it is then. An edit of it that leaves
// that as it is ends nothing.
func (z *Authorizer) premises(g *grant, s key.Space, who user.Info, suffices func(*grant) bool) []table.Premise {
	holds := func(now *grant, space *table.Row) bool {
		return now != nil && now.concerns(who) && isAbout(now, s, space) && suffices(now)
	}
	all := []table.Premise{{Key: g.entry.Key, Holds: func(row *table.Row) bool {
		var space *table.Row
		if s != key.AllSpaces {
			space, _ = z.table.Get(s.Key())
		}
		return holds(z.grants.at(row), space)
	}}}
	if g.byLabels() {
		all = append(all, table.Premise{Key: s.Key(), Holds: func(space *table.Row) bool {
			row, _ := z.table.Get(g.entry.Key)
			return holds(z.grants.at(row), space)
		}})
	}
	return all
}

// namespaced says whether the objects of a resource of a space are in namespaces.
func (z *Authorizer) namespaced(s key.Space, group, resource string) bool {
	if z.catalog == nil {
		return false
	}
	kind, ok := z.catalog(s).ForStorage(key.NewResource(group, resource))
	return ok && kind.Namespaced
}

func never(string, string) bool { return false }

// discovery are the paths of a space that everybody reads who has a right there; what
// ends with a slash is the beginning of more.
var discovery = []string{
	"/", "/api", "/api/", "/apis", "/apis/", "/openapi", "/openapi/", "/version", "/version/", route.Healthz, route.Livez, route.Readyz,
}

// isBasic says that something is allowed to everybody who has any right in a space: to
// find out what the space serves, who they are and what they may do, and which
// locations there are.
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
