package agentcli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper"
)

const accountName = "orrery-agent"

func newRBAC(dataDir *string) *cobra.Command {
	var namespace string
	var placed bool
	c := &cobra.Command{
		Use:   "rbac [RESOURCE[.GROUP] ...]",
		Short: "Print the RBAC objects that an agent needs at its cluster",
		Long: `Print the RBAC objects that an agent needs at its cluster, for kubectl apply: a
Namespace, a ServiceAccount, a ClusterRole and a ClusterRoleBinding.

Without arguments the agent may map every resource, which makes it an administrator
of the cluster, since it may create roles, too. With arguments it may map those
resources only. With --placed it gets what the agent on --data-dir needs for what is
placed now: it maps the resources that it acts for itself, observes those for which
ServiceAccounts act, and may act as these, by a Role in the namespace of each.
What another kind or account needs is Failed until this is run again.`,
		Example: `  orrery-agent rbac | kubectl apply -f -
  orrery-agent rbac configmaps services deployments.apps | kubectl apply -f -
  orrery-agent rbac --placed --data-dir /var/lib/orrery-agent | kubectl apply -f -`,
		RunE: func(c *cobra.Command, resources []string) error {
			r := rights{all: len(resources) == 0 && !placed, mapped: resources}
			if placed {
				s, err := mapper.ReadStatus(*dataDir)
				if err != nil {
					return err
				}
				r.add(s.Kinds)
			}
			return r.print(c.OutOrStdout(), namespace)
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "orrery-system", "the namespace of the agent's service account")
	c.Flags().BoolVar(&placed, "placed", false, "what the agent on --data-dir needs for what is placed now, and for the resources that are named")
	return c
}

// rights are what an agent may do at its cluster.
type rights struct {
	// all: everything.
	all bool
	// mapped are the resources, as RESOURCE[.GROUP], that it applies and removes with its
	// own rights; observed those that it only watches.
	mapped, observed []string
	// accounts are the names of the ServiceAccounts that it acts as, by namespace.
	accounts map[string][]string
}

// add adds what kinds in use need.
func (r *rights) add(kinds []mapper.KindInUse) {
	accounts := map[string]map[string]bool{}
	for _, k := range kinds {
		resource := strings.TrimSuffix(k.Resource+"."+k.APIGroup, ".")
		if k.Own {
			r.mapped = append(r.mapped, resource)
		} else {
			r.observed = append(r.observed, resource)
		}
		for _, account := range k.ServiceAccounts {
			namespace, name, _ := strings.Cut(account, "/")
			if accounts[namespace] == nil {
				accounts[namespace] = map[string]bool{}
			}
			accounts[namespace][name] = true
		}
	}
	slices.Sort(r.mapped)
	r.mapped = slices.Compact(r.mapped)
	r.accounts = map[string][]string{}
	for namespace, names := range accounts {
		r.accounts[namespace] = slices.Sorted(maps.Keys(names))
	}
}

// print prints the objects, in the order in which they can be applied.
func (r *rights) print(w io.Writer, namespace string) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: accountName, Namespace: namespace}}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	all := []any{
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}},
		corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: namespace},
		},
		rbacv1.ClusterRole{TypeMeta: typed("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: accountName}, Rules: r.rules()},
		rbacv1.ClusterRoleBinding{
			TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: accountName},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: accountName}, Subjects: subjects,
		},
	}
	for _, home := range slices.Sorted(maps.Keys(r.accounts)) {
		as := metav1.ObjectMeta{Name: accountName + "-impersonates", Namespace: home}
		all = append(all,
			rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: as, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: r.accounts[home], Verbs: []string{"impersonate"},
			}}},
			rbacv1.RoleBinding{
				TypeMeta: typed("RoleBinding"), ObjectMeta: as, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: as.Name},
			})
	}
	for _, o := range all {
		b, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", b); err != nil {
			return err
		}
	}
	return nil
}

// custom says whether a CustomResourceDefinition may define a resource.
func custom(of string) bool {
	resource, group, _ := strings.Cut(of, ".")
	return !key.Identity{Resource: key.NewResource(group, resource)}.Builtin()
}

// rules are the permissions that the agent needs in the whole cluster: to map or observe
// the resources, to create the namespaces that they are in, and for discovery.
func (r *rights) rules() []rbacv1.PolicyRule {
	discovery := rbacv1.PolicyRule{NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/version"}, Verbs: []string{"get"}}
	if r.all {
		return []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, discovery}
	}
	rules := []rbacv1.PolicyRule{discovery}
	if len(r.mapped) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create"}})
	}
	if slices.ContainsFunc(r.mapped, custom) { // whether such a kind is gone for good
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"},
		})
	}
	grant := func(resources []string, verbs ...string) {
		for _, of := range resources {
			resource, group, _ := strings.Cut(of, ".")
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs})
		}
	}
	grant(r.mapped, "get", "list", "watch", "create", "patch", "delete")
	grant(r.observed, "list", "watch")
	return rules
}
