package auth

import (
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// bindVerb is the right to bind an APIExport in other spaces.
const bindVerb = "bind"

// everyVerb returns all verbs on objects.
func everyVerb() []string { return slices.Concat(reads, writes) }

// inExportView decides by the right to the content of an APIExport, or of a slice of an
// APIExportView, in its provider's space. It decides for each verb, equally for the objects of one
// consumer and of all. The export, view or consumer need not exist.
func (z *Authorizer) inExportView(root route.Root, who user.Info, q *question) ([]table.Condition, bool) {
	f, _, ok := root.ExportView()
	if !ok || f.Space == key.AllSpaces {
		return nil, false
	}
	var verbs []string
	switch {
	case isBasic(q) && q.group != key.Locations.Group: // discovery and reviews, for users with any right
		verbs = everyVerb()
	case !q.isPath && slices.Contains(everyVerb(), q.verb):
		verbs = []string{q.verb}
	}
	for _, verb := range verbs {
		content := contentOf(f, verb)
		if conditions, ok := z.inSpace(f.Space, who, &content); ok {
			return conditions, true
		}
	}
	return nil, false
}

// lackingInExportView names the missing right for a request to an export view. It depends only on
// the path, so it does not reveal what exists. It is "" for other requests.
func lackingInExportView(root route.Root, a authorizer.Attributes) string {
	f, _, ok := root.ExportView()
	if !ok || f.Space == key.AllSpaces {
		return ""
	}
	verb := "to some verb"
	if q := questionOf(a); slices.Contains(everyVerb(), q.verb) && !q.isPath {
		verb = "to " + q.verb
	}
	content := contentOf(f, verb)
	return fmt.Sprintf("it takes the right %s on %s %q in the space %q", verb, content.whole, content.name, f.Space)
}

// contentOf returns the request for a verb on the content of an export view.
func contentOf(f key.ExportView, verb string) question {
	if !f.View {
		return newQuestion(verb, key.APIExports.Group, key.APIExports.Resource, ContentSubresource, "", f.Name)
	}
	return newQuestion(verb, key.APIExportViews.Group, key.APIExportViews.Resource, ContentSubresource, "", f.Name+":"+f.Value)
}

// binds reports whether a request is for binding an export.
func (q *question) binds() bool {
	return q.verb == bindVerb && q.group == key.APIExports.Group && q.whole == key.APIExports.Resource
}

// rulesInExportView returns the kinds of an export view with the verbs that are both granted and
// offered.
func (r *reviewer) rulesInExportView(root route.Root, who user.Info) (status authorizationv1.SubjectRulesReviewStatus) {
	var granted []string
	for _, verb := range everyVerb() {
		q := newQuestion(verb, "", "", "", "", "")
		if _, ok := r.authorizer.inExportView(root, who, &q); ok || r.authorizer.mayAll(who) {
			granted = append(granted, verb)
		}
	}
	if len(granted) == 0 {
		return status
	}
	var rules []rbacv1.PolicyRule
	for _, k := range r.catalog.Kinds() {
		if r.catalog.Access(k) == kinds.Review {
			continue
		}
		resource := key.NewResource(k.GVR.Group, k.GVR.Resource)
		verbs := slices.DeleteFunc(slices.Clone(granted), func(verb string) bool { return !r.offered(root, resource, verb) })
		rules = addRule(rules, verbs, k.GVR.Group, k.GVR.Resource)
	}
	rules = append(rules, findingOut()...)
	for i := range rules {
		addTo(&status, &rules[i])
	}
	return status
}
