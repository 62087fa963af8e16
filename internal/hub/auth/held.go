package auth

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxSteps is the maximum number of comparisons between requested and held rights in one write. A
// larger write is refused: it can be split.
const maxSteps = 500_000

// held contains all rights of a user in a space, by Grants and by groups.
type held struct {
	z     *Authorizer
	space key.Space
	roles []role
	rules []heldRule
	// steps counts comparisons.
	steps int
}

// heldRule is a rule and the namespaces that it is limited to, if any. Names of objects and
// namespaces, which may be many, are sorted.
type heldRule struct {
	rbacv1.PolicyRule
	namespaces []string
}

func newHeldRule(r rbacv1.PolicyRule, namespaces []string) heldRule {
	r.ResourceNames = slices.Sorted(slices.Values(r.ResourceNames))
	return heldRule{r, slices.Sorted(slices.Values(namespaces))}
}

// covers reports whether the rule allows the single action of another rule, like RBAC, except for
// object names.
func (r *heldRule) covers(single *rbacv1.PolicyRule, namespace string) bool {
	if len(r.namespaces) > 0 {
		if _, in := slices.BinarySearch(r.namespaces, namespace); namespace == "" || !in {
			return false
		}
	}
	if !containsOrAll(r.Verbs, single.Verbs[0]) {
		return false
	}
	if len(single.NonResourceURLs) > 0 {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return pathMatches(url, single.NonResourceURLs[0]) })
	}
	resource, sub, _ := strings.Cut(single.Resources[0], "/")
	q := newQuestion(single.Verbs[0], single.APIGroups[0], resource, sub, namespace, "")
	return containsOrAll(r.APIGroups, q.group) && slices.ContainsFunc(r.Resources, func(resource string) bool { return resourceMatches(resource, &q) })
}

// heldIn returns all rights of a user in a space; for AllSpaces, those in all possible spaces.
func (z *Authorizer) heldIn(s key.Space, who user.Info) *held {
	h := &held{z: z, space: s}
	for _, group := range who.GetGroups() {
		if r, ok := roleOfGroup(group, s); ok {
			h.roles = append(h.roles, r)
		}
	}
	for g := range z.grantsFor(s, who) {
		h.roles = append(h.roles, g.roles(s)...)
		for i := range g.spec.Rules {
			r := &g.spec.Rules[i]
			if len(r.NonResourceURLs) == 0 || s == key.Root && g.own() {
				h.rules = append(h.rules, newHeldRule(policyRule(r), r.Namespaces))
			}
		}
	}
	return h
}

func (h *held) namespaced(group, resource string) bool {
	return h.space != key.AllSpaces && h.z.namespaced(h.space, group, resource)
}

// lacking adds the parts of a rule that are not held in some namespaces or, without namespaces, in
// the whole space, as far as an error names them.
func (h *held) lacking(rule rbacv1.PolicyRule, namespaces []string, l *lacks) {
	for one := range singles(rule) {
		if h.steps > maxSteps {
			return
		}
		if h.includes(one, "") {
			continue
		}
		for _, namespace := range orAll(namespaces) {
			if l.full() || h.steps > maxSteps {
				return
			}
			if namespace == "" || !h.includes(one, namespace) {
				l.add(describe(&one) + in(namespace))
			}
		}
	}
}

// singles splits a rule into rules with one verb and one resource or path. The names of objects,
// which may be many, stay together.
func singles(rule rbacv1.PolicyRule) func(yield func(rbacv1.PolicyRule) bool) {
	return func(yield func(rbacv1.PolicyRule) bool) {
		names := rule.ResourceNames
		rule.ResourceNames = nil
		for _, r := range rule.Resources {
			for _, group := range rule.APIGroups {
				for _, verb := range rule.Verbs {
					if !yield(rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{r}, ResourceNames: names}) {
						return
					}
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				if !yield(rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}}) {
					return
				}
			}
		}
	}
}

// includes reports whether a single action is held in a namespace or, for "", in the whole space.
// Different rules may have different object names.
func (h *held) includes(single rbacv1.PolicyRule, namespace string) bool {
	h.steps += len(h.roles) + len(h.rules)
	if slices.ContainsFunc(h.roles, func(r role) bool { return r.covers(&single, namespace, h.namespaced) }) {
		return true
	}
	var named []*heldRule
	for i := range h.rules {
		switch r := &h.rules[i]; {
		case !r.covers(&single, namespace):
		case len(r.ResourceNames) == 0:
			return true
		default:
			named = append(named, r)
		}
	}
	if len(single.ResourceNames) == 0 || len(named) == 0 {
		return false
	}
	h.steps += len(named) * len(single.ResourceNames)
	return h.steps <= maxSteps && !slices.ContainsFunc(single.ResourceNames, func(name string) bool {
		return !slices.ContainsFunc(named, func(r *heldRule) bool { _, in := slices.BinarySearch(r.ResourceNames, name); return in })
	})
}

// within returns the part of a single action that is held in the whole space: all, some of its
// names, or nothing.
func (h *held) within(single rbacv1.PolicyRule) rbacv1.PolicyRule {
	if h.includes(single, "") {
		return single
	}
	names := single.ResourceNames
	single.ResourceNames = nil
	for _, name := range names {
		one := single
		if one.ResourceNames = []string{name}; h.steps <= maxSteps && h.includes(one, "") {
			single.ResourceNames = append(single.ResourceNames, name)
		}
	}
	if len(single.ResourceNames) == 0 {
		return rbacv1.PolicyRule{}
	}
	return single
}

// includesRole reports whether a role, or a stronger one, is held in a namespace or in the whole
// space.
func (h *held) includesRole(name v1alpha1.RoleName, namespace string) bool {
	if slices.ContainsFunc(h.roles, func(r role) bool { return r.includesRole(name, namespace) }) {
		return true
	}
	var missing lacks
	everything := rbacv1.PolicyRule{Verbs: verbsOf(name, h.space), APIGroups: []string{all}, Resources: []string{all}}
	h.lacking(everything, orAll([]string{namespace}), &missing)
	return len(missing) == 0 && h.steps <= maxSteps
}

// orAll returns the namespaces of a limit, or the whole space.
func orAll(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{""}
	}
	return namespaces
}

// maxNamed is the maximum number of missing rights in an error.
const maxNamed = 10

// lacks are the missing rights of a user, for an error.
type lacks []string

func (l *lacks) add(what string) { *l = append(*l, what) }

// full reports whether the error names no more rights.
func (l *lacks) full() bool { return len(*l) > maxNamed }

func (l lacks) String() string {
	slices.Sort(l)
	if l = slices.Compact(l); len(l) > maxNamed {
		return strings.Join(l[:maxNamed], ", ") + ", and more"
	}
	return strings.Join(l, ", ")
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// describe formats a rule with one verb and one resource or path.
func describe(r *rbacv1.PolicyRule) string {
	if len(r.NonResourceURLs) > 0 {
		return fmt.Sprintf("%s %q", strings.Join(r.Verbs, ","), r.NonResourceURLs)
	}
	text := strings.Join(r.Verbs, ",") + " " + strings.Join(r.Resources, ",")
	if group := strings.Join(r.APIGroups, ","); group != "" {
		text += "." + group
	}
	if len(r.ResourceNames) > 0 {
		text += fmt.Sprintf(" %q", r.ResourceNames)
	}
	return text
}
