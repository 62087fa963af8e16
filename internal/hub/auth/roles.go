package auth

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// ContentSubresource of a Location is what the location gets: the right to it is
	// the right to its view.
	ContentSubresource = "content"
	// ReportsResource, by locations, is what these report about the objects of a space: the
	// right to its content is one of who reads their view. There are no such objects.
	ReportsResource = "reports"
	// LiveSubresource of a Location in a space is what the location's cluster has of the
	// space's objects. There is nothing at its path: the right to it is one of who asks for
	// a difference.
	LiveSubresource = "live"
	// LiveSecretsSubresource is the same of Secrets.
	LiveSecretsSubresource = "livesecrets"
	// spaceGroup is how groups begin whose members have a role in one space:
	// orrery:space:NAME:ROLE.
	spaceGroup = "orrery:space:"
	// rolesResource is what the verb bind is about; there are no such objects.
	rolesResource = "roles"

	rbacGroup = "rbac.authorization.k8s.io"
)

var (
	// reads are the verbs that change nothing, writes those that do.
	reads  = []string{"get", "list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
	// roleOrder has the roles from the weakest on; each has what those before it have.
	roleOrder = []v1alpha1.RoleName{v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin}
)

// role is a role as somebody has it: in one space, in some of its namespaces or, if
// none is named, in the whole of it.
type role struct {
	name       v1alpha1.RoleName
	space      key.Space
	namespaces []string
}

// kindTest names resources that a role leaves out; what is "" is any.
type kindTest struct{ group, resource, sub string }

var (
	grantsTest      = kindTest{group: v1alpha1.Group, resource: "grants"}
	contentTest     = kindTest{group: v1alpha1.Group, sub: ContentSubresource}
	liveTest        = kindTest{group: v1alpha1.Group, sub: LiveSubresource}
	liveSecretsTest = kindTest{group: v1alpha1.Group, sub: LiveSecretsSubresource}
	// unread is what each role does not read, unwritten what edit does not write.
	unread = map[v1alpha1.RoleName][]kindTest{
		v1alpha1.RoleView: {{resource: "secrets"}, grantsTest, contentTest, liveTest, liveSecretsTest},
		v1alpha1.RoleEdit: {grantsTest, contentTest, liveSecretsTest},
	}
	unwritten = []kindTest{{group: rbacGroup}, {group: v1alpha1.Group}, {resource: "resourcequotas"}, {resource: "limitranges"}}
)

// touches says whether resources that a rule or a question names are among those of a
// test, if only some of them.
func (t kindTest) touches(group, resource, sub string) bool {
	// The group of a test that names only a resource is the core group.
	return (group == all || group == t.group) &&
		(t.resource == "" || resource == all || resource == t.resource) &&
		(t.sub == "" || sub == t.sub || sub == all || resource == all && sub == "")
}

// allows says whether the role allows all that a question names, which may be more
// than one thing where it has a "*". isNamespaced says of a resource whether its objects are in
// namespaces; it is asked only where the question does not tell.
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
		return false // it is about what is in them
	}
	switch {
	case r.name == v1alpha1.RoleAdmin && r.space == key.Root:
		// Other verbs there reach beyond root: who acts as somebody, or grants what they
		// do not have, is not bound to it. An export of root is its own.
		return slices.Contains(writes, q.verb) || q.binds()
	case r.name == v1alpha1.RoleAdmin:
		return true
	case r.name == v1alpha1.RoleEdit && slices.Contains(writes, q.verb) && !left(unwritten):
		return q.namespace != "" || q.group == "" && q.resource == namespaces.resource || isNamespaced(q.group, q.resource)
	}
	return false
}

// covers says whether the role allows all that a rule of RBAC does that has one verb
// and one resource, in one namespace or, if it is "", in the whole of the space.
func (r role) covers(rule *rbacv1.PolicyRule, namespace string, isNamespaced func(group, resource string) bool) bool {
	if len(rule.NonResourceURLs) > 0 {
		return false
	}
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	q := about(rule.Verbs[0], rule.APIGroups[0], resource, sub, namespace, "")
	return r.allows(&q, isNamespaced)
}

// holds says whether who has the role has another one, too, in a namespace or in the
// whole of the space.
func (r role) holds(other v1alpha1.RoleName, namespace string) bool {
	return slices.Index(roleOrder, r.name) >= slices.Index(roleOrder, other) && within(r.namespaces, namespace)
}

// verbsOf are the verbs of a role in a space.
func verbsOf(name v1alpha1.RoleName, s key.Space) []string {
	switch {
	case name == v1alpha1.RoleView:
		return reads
	case name == v1alpha1.RoleAdmin && s != key.Root:
		return []string{all}
	}
	return slices.Concat(reads, writes)
}

// roleOfGroup is the role that members of a group have in a space by its name.
func roleOfGroup(group string, s key.Space) (role, bool) {
	rest, ok := strings.CutPrefix(group, spaceGroup)
	if !ok {
		return role{}, false
	}
	space, name, ok := strings.Cut(rest, ":")
	r := role{name: v1alpha1.RoleName(name), space: s}
	return r, ok && key.Space(space) == s && slices.Contains(roleOrder, r.name)
}
