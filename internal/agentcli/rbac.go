package agentcli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const accountName = "orrery-agent"

func newRBAC() *cobra.Command {
	var namespace string
	c := &cobra.Command{
		Use:   "rbac [RESOURCE[.GROUP] ...]",
		Short: "Print the RBAC objects that an agent needs at its cluster",
		Long: `Print the RBAC objects that an agent needs at its cluster, for kubectl apply: a
Namespace, a ServiceAccount, a ClusterRole and a ClusterRoleBinding.

Without arguments the agent may map every resource, which makes it an administrator
of the cluster, since it may create roles, too. With arguments it may map those
resources only.`,
		Example: `  orrery-agent rbac | kubectl apply -f -
  orrery-agent rbac configmaps services deployments.apps | kubectl apply -f -`,
		RunE: func(c *cobra.Command, resources []string) error {
			return printRBAC(c.OutOrStdout(), namespace, resources)
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "orrery-system", "the namespace of the agent's service account")
	return c
}

func printRBAC(w io.Writer, namespace string, resources []string) error {
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: accountName}, Rules: rules(resources),
	}
	account := corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: namespace},
	}
	binding := rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: accountName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: accountName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: accountName, Namespace: namespace}},
	}
	home := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
	for _, o := range []any{home, account, role, binding} {
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

// rules are the permissions that the agent needs: to map the resources, to create the
// namespaces that they are in, and for discovery. No resources: it may do everything.
func rules(resources []string) []rbacv1.PolicyRule {
	if len(resources) == 0 {
		return []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/version"}, Verbs: []string{"get"}},
		}
	}
	all := []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/version"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create"}},
		{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			Verbs: []string{"get"},
		},
	}
	for _, r := range resources {
		resource, group, _ := strings.Cut(r, ".")
		all = append(all, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource},
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		})
	}
	return all
}
