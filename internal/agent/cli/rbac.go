package cli

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/agent/manifest"
)

func newRBAC(dataDir *string) *cobra.Command {
	var namespace string
	var placed bool
	c := &cobra.Command{
		Use:   "rbac [RESOURCE[.GROUP] ...]",
		Short: "Print the RBAC objects that an agent needs at its cluster",
		Long: `Print the RBAC objects that an agent needs at its cluster, for kubectl apply: a
Namespace, a ServiceAccount, a ClusterRole and a ClusterRoleBinding.

Without arguments the agent may change every resource. This makes it an administrator
of the cluster, since it may create roles, too. With arguments it may change only those
resources. With --placed it gets the rights that the agent on --data-dir needs for the
objects that are placed now:
- it may change the resources that it applies with its own rights;
- it may read the resources that it applies as ServiceAccounts, and may impersonate
  these accounts, by a Role in the namespace of each;
- it may read the resources whose objects it upsyncs.
Objects of other resources or accounts get state Failed until this command is run again
and its output is applied.`,
		Example: `  orrery-agent rbac | kubectl apply -f -
  orrery-agent rbac configmaps services deployments.apps | kubectl apply -f -
  orrery-agent rbac --placed --data-dir /var/lib/orrery-agent | kubectl apply -f -`,
		RunE: func(c *cobra.Command, resources []string) error {
			r := manifest.Rights{All: len(resources) == 0, Mapped: resources}
			if placed {
				s, err := agent.ReadStatus(*dataDir)
				if err != nil {
					return err
				}
				r = rightsFor(s.Kinds, resources)
				for _, k := range s.Seen {
					r.Seen = append(r.Seen, strings.TrimSuffix(k.Resource+"."+k.APIGroup, "."))
				}
			}
			return manifest.Print(c.OutOrStdout(), r.Objects(cmp.Or(namespace, ownNamespace())))
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "", "the namespace of the agent's service account (default: that of its Pod, elsewhere "+manifest.Namespace+")")
	c.Flags().BoolVar(&placed, "placed", false, "grant the rights that the agent on --data-dir needs for the objects that are placed now, and for the resources in the arguments")
	return c
}

// ownNamespace returns the namespace of the Pod in which this process runs; outside of a Pod
// it returns the default namespace of an agent.
func ownNamespace() string {
	b, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil { // the process does not run in a Pod
		return manifest.Namespace
	}
	return string(b)
}

// rightsFor returns the rights that the kinds in use need, and those for the named resources.
func rightsFor(kinds []agent.KindInUse, named []string) manifest.Rights {
	r := manifest.Rights{Mapped: named, Accounts: map[string][]string{}}
	for _, k := range kinds {
		resource := strings.TrimSuffix(k.Resource+"."+k.APIGroup, ".")
		if k.Own {
			r.Mapped = append(r.Mapped, resource)
		} else {
			r.Observed = append(r.Observed, resource)
		}
		for _, account := range k.ServiceAccounts {
			namespace, name, _ := strings.Cut(account, "/")
			r.Accounts[namespace] = append(r.Accounts[namespace], name)
		}
	}
	slices.Sort(r.Mapped)
	r.Mapped = slices.Compact(r.Mapped)
	for namespace, names := range r.Accounts {
		slices.Sort(names)
		r.Accounts[namespace] = slices.Compact(names)
	}
	return r
}
