package auth

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// ContentSubresource of a Location is the content of the location: the right to it is the right
	// to the location's view.
	ContentSubresource = "content"
	// ReportsResource, by location, is the reports about objects of a space. The right to its
	// content is needed to read the reports view. No such objects exist.
	ReportsResource = "reports"
	// LiveSubresource of a Location in a space is the live state of the space's objects in the
	// location's cluster. It has no path of its own: the right to it is needed for diff.
	LiveSubresource = "live"
	// LiveSecretsSubresource is the same for Secrets.
	LiveSecretsSubresource = "livesecrets"
	// spaceGroup is the prefix of groups whose members have a role in one space:
	// orrery:space:NAME:ROLE.
	spaceGroup = "orrery:space:"
	// rolesResource is the resource of the verb bind; no such objects exist.
	rolesResource = "roles"

	rbacGroup = "rbac.authorization.k8s.io"
)

var (
	// reads are the verbs that change nothing, and writes all others.
	reads  = []string{"get", "list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
	// roleOrder lists the roles from the weakest; each includes the previous ones.
	roleOrder = []v1alpha1.RoleName{v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin}
)

// role is a role of a user: in one space, in some of its namespaces or, if none is named, in the
// whole space.
type role struct {
	name       v1alpha1.RoleName
	space      key.Space
	namespaces []string
}

// kindTest matches resources that a role excludes; empty fields match any.
type kindTest struct{ group, resource, sub string }

var (
	grantsTest      = kindTest{group: v1alpha1.Group, resource: "grants"}
	contentTest     = kindTest{group: v1alpha1.Group, sub: ContentSubresource}
	liveTest        = kindTest{group: v1alpha1.Group, sub: LiveSubresource}
	liveSecretsTest = kindTest{group: v1alpha1.Group, sub: LiveSecretsSubresource}
	// unread lists what each role does not read, and unwritten what edit does not write.
	unread = map[v1alpha1.RoleName][]kindTest{
		v1alpha1.RoleView: {{resource: "secrets"}, grantsTest, contentTest, liveTest, liveSecretsTest},
		v1alpha1.RoleEdit: {grantsTest, contentTest, liveSecretsTest},
	}
	unwritten = []kindTest{{group: rbacGroup}, {group: v1alpha1.Group}, {resource: "resourcequotas"}, {resource: "limitranges"}}
)

// touches reports whether resources of a rule or request may be among those of a test, even if only
// some of them.
func (t kindTest) touches(group, resource, sub string) bool {
	// The group of a test with only a resource is the core group.
	return (group == all || group == t.group) &&
		(t.resource == "" || resource == all || resource == t.resource) &&
		(t.sub == "" || sub == t.sub || sub == all || resource == all && sub == "")
}

// allows reports whether the role allows a request, all of it if it has a "*". isNamespaced reports
// whether a resource is namespaced; it is called only if the request does not show it.
func (r role) allows(q *question, isNamespaced func(group, resource string) bool) bool {
	if q.isPath || !within(r.namespaces, q.namespace) {
		return false
	}
	left := func(tests []kindTest) bool {
		return slices.ContainsFunc(tests, func(t kindTest) bool { return t.touches(q.group, q.resource, q.sub) })
	}
	if slices.Contains(reads, q.verb) {
		return !left(unread[r.name])
	}
	namespaces := kindTest{resource: "namespaces"}
	if len(r.namespaces) > 0 && left([]kindTest{namespaces}) {
		return false // a role with namespaces applies only to objects in them
	}
	switch {
	case r.name == v1alpha1.RoleAdmin && r.space == key.Root:
		// Other verbs in root have effects beyond it: impersonation, and granting rights that the
		// user does not have. Binding an export of root affects only root.
		return slices.Contains(writes, q.verb) || q.binds()
	case r.name == v1alpha1.RoleAdmin:
		return true
	case r.name == v1alpha1.RoleEdit && slices.Contains(writes, q.verb) && !left(unwritten):
		return q.namespace != "" || q.group == "" && q.resource == namespaces.resource || isNamespaced(q.group, q.resource)
	}
	return false
}

// covers reports whether the role allows everything that an RBAC rule with one verb and one
// resource allows, in one namespace or, for "", in the whole space.
func (r role) covers(rule *rbacv1.PolicyRule, namespace string, isNamespaced func(group, resource string) bool) bool {
	if len(rule.NonResourceURLs) > 0 {
		return false
	}
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	q := newQuestion(rule.Verbs[0], rule.APIGroups[0], resource, sub, namespace, "")
	return r.allows(&q, isNamespaced)
}

// includesRole reports whether the role includes another role, in a namespace or in the whole
// space.
func (r role) includesRole(other v1alpha1.RoleName, namespace string) bool {
	return slices.Index(roleOrder, r.name) >= slices.Index(roleOrder, other) && within(r.namespaces, namespace)
}

// verbsOf returns the verbs of a role in a space.
func verbsOf(name v1alpha1.RoleName, s key.Space) []string {
	switch {
	case name == v1alpha1.RoleView:
		return reads
	case name == v1alpha1.RoleAdmin && s != key.Root:
		return []string{all}
	}
	return slices.Concat(reads, writes)
}

// roleOfGroup returns the role that members of a group have in a space by its name.
func roleOfGroup(group string, s key.Space) (role, bool) {
	rest, ok := strings.CutPrefix(group, spaceGroup)
	if !ok {
		return role{}, false
	}
	space, name, ok := strings.Cut(rest, ":")
	r := role{name: v1alpha1.RoleName(name), space: s}
	return r, ok && key.Space(space) == s && slices.Contains(roleOrder, r.name)
}
