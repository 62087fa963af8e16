package manifest

import (
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent/diagnosis"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// Namespace is the default namespace of an agent.
	Namespace = "orrery-system"
	// name is the name of all objects of an agent at its cluster.
	name = "orrery-agent"
)

// Rights are the permissions of an agent at its cluster. With the zero value an agent can start, discover the
// API, and report the permissions that it lacks.
type Rights struct {
	// All: everything.
	All bool
	// Mapped are the resources, as RESOURCE[.GROUP], that it applies and removes with its own rights. Observed
	// are those that it only watches.
	Mapped, Observed []string
	// Seen are the resources of which it also reads objects that no Placement put there.
	Seen []string
	// Accounts are the names of the ServiceAccounts that it impersonates, by namespace.
	Accounts map[string][]string
}

// Objects returns the agent's account and permissions, in the order in which they can be applied.
func (r *Rights) Objects(namespace string) []any {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	role := metav1.ObjectMeta{Name: roleName(namespace)}
	all := []any{
		corev1.Namespace{TypeMeta: core("Namespace"), ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		corev1.ServiceAccount{TypeMeta: core("ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}},
		rbacv1.ClusterRole{TypeMeta: typed("ClusterRole"), ObjectMeta: role, Rules: r.rules()},
		rbacv1.ClusterRoleBinding{
			TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: role,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, Subjects: subjects,
		},
	}
	// In this namespace, all agents of a location hold Leases.
	own := metav1.ObjectMeta{Name: role.Name + "-leases", Namespace: Namespace}
	if namespace != Namespace {
		all = append(all, corev1.Namespace{TypeMeta: core("Namespace"), ObjectMeta: metav1.ObjectMeta{Name: Namespace}})
	}
	all = append(all,
		rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: own, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create", "update"},
		}}},
		rbacv1.RoleBinding{
			TypeMeta: typed("RoleBinding"), ObjectMeta: own, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own.Name},
		})
	for _, home := range slices.Sorted(maps.Keys(r.Accounts)) {
		as := metav1.ObjectMeta{Name: role.Name + "-impersonates", Namespace: home}
		all = append(all,
			rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: as, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: r.Accounts[home], Verbs: []string{"impersonate"},
			}}},
			rbacv1.RoleBinding{
				TypeMeta: typed("RoleBinding"), ObjectMeta: as, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: as.Name},
			})
	}
	return all
}

// roleName returns the name of a ClusterRole. Agents in several namespaces of a cluster have one each.
func roleName(namespace string) string {
	if namespace == Namespace {
		return name
	}
	return name + "-" + namespace
}

func core(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

// isCustom reports whether a CustomResourceDefinition may define a resource.
func isCustom(name string) bool {
	resource, group, _ := strings.Cut(name, ".")
	return !key.Identity{Resource: key.NewResource(group, resource)}.Builtin()
}

// rules returns the permissions that the agent needs in the whole cluster. They are for the resources that it
// applies or observes, for their namespaces, for discovery, and for the Leases of other agents of the location.
func (r *Rights) rules() []rbacv1.PolicyRule {
	discovery := rbacv1.PolicyRule{NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/version"}, Verbs: []string{"get"}}
	if r.All {
		return []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, discovery}
	}
	// Leases name the agents that share a location.
	rules := []rbacv1.PolicyRule{discovery, {APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"list", "watch"}}}
	if len(r.Mapped) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create"}})
	} else { // the UID of this Namespace is the identity of the cluster
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}})
	}
	if len(r.Seen) > 0 { // their kinds may appear and disappear
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"},
		})
	}
	if slices.ContainsFunc(r.Mapped, isCustom) { // to find out whether such a kind is deleted
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"},
		})
	}
	grant := func(resources []string, verbs ...string) {
		for _, name := range resources {
			resource, group, _ := strings.Cut(name, ".")
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs})
		}
	}
	grant(r.Mapped, "get", "list", "watch", "create", "patch", "delete")
	grant(r.Observed, "list", "watch")
	grant(r.Seen, "get", "list", "watch")
	grant(diagnosed(r.Mapped), "list")
	return rules
}

// diagnosed returns the resources that the agent reads to find out why objects of other resources are
// not healthy.
func diagnosed(mapped []string) (read []string) {
	for _, name := range mapped {
		resource, group, _ := strings.Cut(name, ".")
		for _, r := range diagnosis.Reads(key.NewResource(group, resource)) {
			read = append(read, strings.TrimSuffix(r.Resource+"."+r.APIGroup(), "."))
		}
	}
	slices.Sort(read)
	return slices.Compact(read)
}
