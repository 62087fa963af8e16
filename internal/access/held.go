package access

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
)

// held is all that somebody holds in a space, by Grants and by groups.
type held struct {
	z     *Authorizer
	space key.Space
	roles []role
	rules []heldRule
}

// heldRule is a rule and the namespaces that it is limited to, if any.
type heldRule struct {
	rbacv1.PolicyRule
	namespaces []string
}

// heldIn is what somebody holds in a space; in AllSpaces, what they hold in all that there
// may be.
func (z *Authorizer) heldIn(s key.Space, who user.Info) *held {
	h := &held{z: z, space: s}
	for _, group := range who.GetGroups() {
		if r, ok := roleOfGroup(group, s); ok {
			h.roles = append(h.roles, r)
		}
	}
	for g := range z.about(s, who) {
		h.roles = append(h.roles, g.roles(s)...)
		for i := range g.spec.Rules {
			r := &g.spec.Rules[i]
			if len(r.NonResourceURLs) == 0 || s == key.Root && g.own() {
				h.rules = append(h.rules, heldRule{policyRule(r), r.Namespaces})
			}
		}
	}
	return h
}

func (h *held) namespaced(group, resource string) bool {
	return h.space != key.AllSpaces && h.z.namespaced(h.space, group, resource)
}

// missing are the parts of a rule that are not held in a namespace, or, if it is "", in
// the whole of the space.
func (h *held) missing(rule rbacv1.PolicyRule, namespace string) []rbacv1.PolicyRule {
	var owner []rbacv1.PolicyRule
	for _, r := range h.rules {
		if within(r.namespaces, namespace) {
			owner = append(owner, r.PolicyRule)
		}
	}
	_, left := validation.Covers(owner, []rbacv1.PolicyRule{rule})
	return slices.DeleteFunc(left, func(r rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(h.roles, func(has role) bool { return has.covers(&r, namespace, h.namespaced) })
	})
}

// holds says whether a role, or more, is held in a namespace or in the whole of the space.
func (h *held) holds(name v1alpha1.RoleName, namespace string) bool {
	if slices.ContainsFunc(h.roles, func(r role) bool { return r.holds(name, namespace) }) {
		return true
	}
	everything := rbacv1.PolicyRule{Verbs: verbsOf(name, h.space), APIGroups: []string{all}, Resources: []string{all}}
	return len(h.missing(everything, namespace)) == 0
}

// orAll are the namespaces that something is limited to, or the whole of the space.
func orAll(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{""}
	}
	return namespaces
}

// maxNamed is how many missing rights an error names.
const maxNamed = 10

// lacks collects what somebody lacks, for an error.
type lacks []string

func (l *lacks) add(namespace string, rules ...rbacv1.PolicyRule) {
	for i := range rules {
		*l = append(*l, describe(&rules[i])+in(namespace))
	}
}

func (l lacks) String() string {
	slices.Sort(l)
	if l = slices.Compact(l); len(l) > maxNamed {
		return fmt.Sprintf("%s, and %d more", strings.Join(l[:maxNamed], ", "), len(l)-maxNamed)
	}
	return strings.Join(l, ", ")
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// describe names a rule of one verb and one resource or path.
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
