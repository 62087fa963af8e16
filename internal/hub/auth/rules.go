package auth

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// rulesFor returns all rules of a user at a root, in a namespace: rules of Grants unchanged, and
// roles by the kinds of a catalog.
func (z *Authorizer) rulesFor(root route.Root, catalog *kinds.Catalog, who user.Info, namespace string) authorizationv1.SubjectRulesReviewStatus {
	isAll := root == route.Space(key.AllSpaces)
	var status authorizationv1.SubjectRulesReviewStatus
	switch {
	case z.mayAll(who):
		verbs := []string{all}
		if isAll {
			verbs = reads
		}
		status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: verbs, APIGroups: []string{all}, Resources: []string{all}}}
		status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: verbs, NonResourceURLs: []string{all}}}
		return status
	case root.API != route.Spaces:
		return status
	}
	rules := z.rulesIn(key.Space(root.Name), catalog, who, namespace)
	if isAll { // rights that hold in root and in all other spaces
		var complete bool
		status.Incomplete = true
		if rules, complete = common(z.rulesIn(key.Root, catalog, who, namespace), rules); !complete {
			status.EvaluationError = errTooMuch
		}
	}
	size := 0
	for i := range rules {
		if size += sizeOf(&rules[i]); size > maxReviewed {
			status.Incomplete, status.EvaluationError = true, errTooMuch
			break
		}
		addTo(&status, &rules[i])
	}
	return status
}

const (
	// maxReviewed limits the rules in a review, in bytes. One Grant is limited by its space, but a
	// user may have many.
	maxReviewed = 1 << 20
	errTooMuch  = "there are more rules than are listed at once; ask about single things"
)

// sizeOf returns the approximate size of a rule in a response.
func sizeOf(r *rbacv1.PolicyRule) int {
	const quotes = 3
	size := 0
	for _, list := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		size += quotes
		for _, s := range list {
			size += len(s) + quotes
		}
	}
	return size
}

func addTo(status *authorizationv1.SubjectRulesReviewStatus, r *rbacv1.PolicyRule) {
	if len(r.NonResourceURLs) > 0 {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		return
	}
	status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
		Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
	})
}

// rulesIn returns the rules of a user in one space, or in all possible spaces.
func (z *Authorizer) rulesIn(s key.Space, catalog *kinds.Catalog, who user.Info, namespace string) []rbacv1.PolicyRule {
	h := z.heldIn(s, who)
	var rules []rbacv1.PolicyRule
	locations := newQuestion("list", key.Locations.Group, key.Locations.Resource, "", "", "")
	asking := asking{question: &locations, space: s, isNamespaced: never}
	if len(h.roles) > 0 || slices.ContainsFunc(slices.Collect(z.grantsFor(s, who)), asking.allows) {
		rules = append(rules, basics()...)
	}
	type kind struct { // kinds with the same rules
		name    v1alpha1.RoleName
		isLocal bool
	}
	listed := map[kind]bool{}
	for _, r := range h.roles {
		if k := (kind{r.name, len(r.namespaces) > 0}); within(r.namespaces, namespace) && !listed[k] {
			listed[k] = true
			rules = append(rules, r.over(catalog, namespace)...)
		}
	}
	for i := range h.rules {
		if r := &h.rules[i]; within(r.namespaces, namespace) {
			rules = append(rules, r.PolicyRule)
		}
	}
	return rules
}

// basics are the rules of each user with any right in a space.
func basics() []rbacv1.PolicyRule {
	locations := rbacv1.PolicyRule{Verbs: reads, APIGroups: []string{key.Locations.Group}, Resources: []string{key.Locations.Resource}}
	return append([]rbacv1.PolicyRule{locations}, findingOut()...)
}

// findingOut are the rules for discovery and reviews of one's own user, at any root.
func findingOut() []rbacv1.PolicyRule {
	var paths []string
	for _, path := range discovery {
		if len(path) > 1 && strings.HasSuffix(path, "/") {
			path += all
		}
		paths = append(paths, path)
	}
	return []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
		{Verbs: []string{"get"}, NonResourceURLs: paths},
	}
}

// over returns the role as rules for the kinds of a catalog, in a namespace.
func (r role) over(catalog *kinds.Catalog, namespace string) []rbacv1.PolicyRule {
	everything := rbacv1.PolicyRule{Verbs: verbsOf(r.name, r.space), APIGroups: []string{all}, Resources: []string{all}}
	if r.name == v1alpha1.RoleAdmin && len(r.namespaces) == 0 {
		return []rbacv1.PolicyRule{everything}
	}
	var rules []rbacv1.PolicyRule
	for _, k := range catalog.Kinds() {
		if !k.Namespaced && len(r.namespaces) > 0 && k.Resource != key.Namespaces || catalog.Access(k) == kinds.Review {
			continue
		}
		in := namespace
		if !k.Namespaced && len(r.namespaces) == 0 {
			in = ""
		}
		var verbs []string
		for _, verb := range slices.Concat(reads, writes) {
			q := newQuestion(verb, k.GVR.Group, k.GVR.Resource, "", in, "")
			if r.allows(&q, func(string, string) bool { return k.Namespaced }) {
				verbs = append(verbs, verb)
			}
		}
		rules = addRule(rules, verbs, k.GVR.Group, k.GVR.Resource)
	}
	return rules
}

// addRule adds a resource to the rule with the same verbs and group.
func addRule(rules []rbacv1.PolicyRule, verbs []string, group, resource string) []rbacv1.PolicyRule {
	if len(verbs) == 0 {
		return rules
	}
	for i := range rules {
		if r := &rules[i]; r.APIGroups[0] == group && slices.Equal(r.Verbs, verbs) {
			if !slices.Contains(r.Resources, resource) {
				r.Resources = append(r.Resources, resource)
			}
			return rules
		}
	}
	return append(rules, rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}})
}

// common returns the parts of rules that other rules cover, and that read or are basic. It is
// incomplete if there are too many.
func common(others, rules []rbacv1.PolicyRule) (both []rbacv1.PolicyRule, complete bool) {
	h := &held{}
	for _, r := range others {
		h.rules = append(h.rules, newHeldRule(r, nil))
	}
	size := 0
	for _, r := range rules {
		r.Verbs = slices.DeleteFunc(slices.Concat(reads, []string{"create"}), func(verb string) bool { return !containsOrAll(r.Verbs, verb) })
		for single := range singles(r) {
			if h.steps++; h.steps > maxSteps || size > maxReviewed {
				return both, false
			}
			if single.Verbs[0] == "create" && !isReview(&single) {
				continue
			}
			if single = h.within(single); len(single.Verbs) > 0 {
				size += sizeOf(&single)
				both = append(both, single)
			}
		}
	}
	return both, true
}

func isReview(single *rbacv1.PolicyRule) bool {
	return slices.Contains([]string{"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}, strings.Join(single.Resources, ""))
}
