package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
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
	current := c.currentContext(&raw)
	if current == nil || raw.Clusters[current.Cluster] == nil {
		return "", errors.New("the kubeconfig has no current context: see kubectl config get-contexts")
	}
	cluster := raw.Clusters[current.Cluster].DeepCopy()
	cluster.Server, cluster.LocationOfOrigin = hub+route.Space(key.Space(space)).String(), ""
	name := contextFor(&raw, cluster, current.AuthInfo)
	if name == "" {
		name = freeName(&raw, space, hub)
		added := clientcmdapi.NewContext()
		added.Cluster, added.AuthInfo = name, current.AuthInfo
		raw.Clusters[name], raw.Contexts[name] = cluster, added
	}
	raw.CurrentContext = name
	if err := clientcmd.ModifyConfig(loader.ConfigAccess(), raw, true); err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return name, nil
}

// currentContext returns a copy of the context of the command, with the cluster and user of its flags; nil
// if there is none.
func (c *connection) currentContext(config *clientcmdapi.Config) *clientcmdapi.Context {
	found := config.Contexts[cmp.Or(*c.flags.Context, config.CurrentContext)]
	if found == nil {
		return nil
	}
	current := found.DeepCopy()
	current.Cluster = cmp.Or(*c.flags.ClusterName, current.Cluster)
	current.AuthInfo = cmp.Or(*c.flags.AuthInfoName, current.AuthInfo)
	return current
}

// contextFor returns a context with a user and a cluster, which reaches the hub in the same way; "" if there
// is none.
func contextFor(config *clientcmdapi.Config, cluster *clientcmdapi.Cluster, user string) (found string) {
	for name, one := range config.Contexts {
		if other := config.Clusters[one.Cluster]; other == nil || !isSameCluster(other, cluster) || !isSameUser(config, one.AuthInfo, user) {
			continue
		}
		if found == "" || name < found {
			found = name
		}
	}
	return found
}

// isSameUser reports whether two users of a kubeconfig have the same credential.
func isSameUser(config *clientcmdapi.Config, a, b string) bool {
	if a == b {
		return true
	}
	x, y := config.AuthInfos[a], config.AuthInfos[b]
	if x == nil || y == nil {
		return false
	}
	x, y = x.DeepCopy(), y.DeepCopy()
	x.LocationOfOrigin, y.LocationOfOrigin = "", ""
	return equality.Semantic.DeepEqual(x, y)
}

// isSameCluster reports whether two clusters of kubeconfigs have the same server, trust and proxy.
func isSameCluster(a, b *clientcmdapi.Cluster) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, one := range []*clientcmdapi.Cluster{x, y} {
		one.Server, one.LocationOfOrigin, one.Extensions = strings.TrimSuffix(one.Server, "/"), "", nil
	}
	return equality.Semantic.DeepEqual(x, y)
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
