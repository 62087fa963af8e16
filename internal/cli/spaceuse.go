package cli

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

func newSpaceUse(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a space the current context of the kubeconfig",
		Long: `Make a space of the same hub the current context of the kubeconfig, with the credential
of the present context. kubectl and orrery then use that space. The context is created
if there is none. A kubeconfig of "orrery space kubeconfig" can't do this, since its
credential is valid in one space only.
`,
		Example: `  orrery space use shop
  orrery space use root`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			if err := h.get(cmd.Context(), asJSON, nil, route.Space(key.Space(name)).String(), "version"); err != nil {
				return err
			}
			used, err := c.use(h.hub, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "context %s is current: space %s of hub %s\n", used, name, withoutUser(h.hub))
			return err
		},
	}
}

// use makes a space the current context of the kubeconfig, and returns the name of the context.
func (c *connection) use(hub, space string) (string, error) {
	loader := c.flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	current := raw.CurrentContext
	if *c.flags.Context != "" {
		current = *c.flags.Context
	}
	from := raw.Contexts[current]
	if from == nil || raw.Clusters[from.Cluster] == nil {
		return "", fmt.Errorf("the kubeconfig has no context %q", current)
	}
	server := hub + route.Space(key.Space(space)).String()
	name := contextFor(&raw, from, server)
	if name == "" {
		name = freeName(&raw, space, hub)
		cluster := raw.Clusters[from.Cluster].DeepCopy()
		cluster.Server, cluster.LocationOfOrigin = server, ""
		added := clientcmdapi.NewContext()
		added.Cluster, added.AuthInfo = name, from.AuthInfo
		raw.Clusters[name], raw.Contexts[name] = cluster, added
	}
	raw.CurrentContext = name
	if err := clientcmd.ModifyConfig(loader.ConfigAccess(), raw, true); err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return name, nil
}

// contextFor returns a context with a server and the user of another context; "" if there is none.
func contextFor(config *clientcmdapi.Config, like *clientcmdapi.Context, server string) (found string) {
	for name, one := range config.Contexts {
		cluster := config.Clusters[one.Cluster]
		if cluster != nil && cluster.Server == server && one.AuthInfo == like.AuthInfo && (found == "" || name < found) {
			found = name
		}
	}
	return found
}

// freeName returns a name that neither a context nor a cluster of the kubeconfig has.
func freeName(config *clientcmdapi.Config, space, hub string) string {
	name := space
	if u, err := url.Parse(hub); err == nil && isTaken(config, name) {
		name = space + "." + u.Hostname()
	}
	for base, n := name, 2; isTaken(config, name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func isTaken(config *clientcmdapi.Config, name string) bool {
	return config.Contexts[name] != nil || config.Clusters[name] != nil
}
