package auth

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/apis/v1alpha1"
)

const all = "*"

// question is a request in the form that Grants decide about.
type question struct {
	verb string
	// path is the requested path if isPath is set; otherwise the other fields are used.
	path   string
	isPath bool
	// group, resource and sub identify the resource; whole is RESOURCE[/SUB].
	group, resource, sub, whole string
	namespace, name             string
}

func questionOf(a authorizer.Attributes) question {
	if !a.IsResourceRequest() {
		return question{verb: a.GetVerb(), path: a.GetPath(), isPath: true}
	}
	return newQuestion(a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
}

func newQuestion(verb, group, resource, sub, namespace, name string) question {
	q := question{verb: verb, group: group, resource: resource, sub: sub, whole: resource, namespace: namespace, name: name}
	if sub != "" {
		q.whole += "/" + sub
	}
	return q
}

// ruleAllows reports whether a rule of a Grant allows a request, like an RBAC rule; only Grants in
// root allow paths.
func ruleAllows(r *v1alpha1.GrantRule, q *question) bool {
	if !containsOrAll(r.Verbs, q.verb) {
		return false
	}
	if q.isPath {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return pathMatches(url, q.path) })
	}
	return containsOrAll(r.APIGroups, q.group) &&
		slices.ContainsFunc(r.Resources, func(resource string) bool { return resourceMatches(resource, q) }) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.name)) &&
		within(r.Namespaces, q.namespace)
}

func containsOrAll(list []string, want string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return s == all || s == want })
}

func resourceMatches(pattern string, q *question) bool {
	if pattern == all || pattern == q.whole {
		return true
	}
	sub, ok := strings.CutPrefix(pattern, "*/")
	return ok && q.sub != "" && sub == q.sub
}

func pathMatches(url, path string) bool {
	if url == path {
		return true
	}
	prefix, ok := strings.CutSuffix(url, all)
	return ok && strings.HasPrefix(path, prefix)
}

// within reports whether a list of namespaces, which is empty for all, includes a namespace; ""
// means cluster-scoped objects, or all namespaces.
func within(namespaces []string, namespace string) bool {
	return len(namespaces) == 0 || namespace != "" && slices.Contains(namespaces, namespace)
}

// policyRule returns the rule as an RBAC rule, without its namespaces.
func policyRule(r *v1alpha1.GrantRule) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, NonResourceURLs: r.NonResourceURLs,
	}
}
