package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/lib/process"
	"orrery.dev/orrery/internal/protocol/route"
)

// versions is the output of `orrery version`.
type versions struct {
	Client string       `json:"client"`
	Hub    *hubVersions `json:"hub,omitempty"`
}

// hubVersions are the versions of a hub and of the Kubernetes API of its spaces.
type hubVersions struct {
	URL string `json:"url"`
	// Version is empty for a hub that does not report its version.
	Version    string `json:"version,omitempty"`
	Kubernetes string `json:"kubernetes"`
}

func newVersion(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection(false)
	var o output
	clientOnly := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the hub",
		Long: `Print the version of this command and, if there is a kubeconfig, of the hub. Behind a
load balancer it is that of the hub that answers.
` + exitCodes,
		Example: `  orrery version
  orrery version --client`,
		Args: want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			v := versions{Client: process.Version()}
			var problem error
			if !clientOnly {
				if v.Hub, problem = c.hubVersion(cmd.Context()); errors.Is(problem, errNoKubeconfig) {
					problem = nil // there is no hub to ask
				}
			}
			if err := printVersions(streams, &o, v); err != nil {
				return err
			}
			return problem
		},
	}
	c.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only the version of this command")
	o.addFlag(cmd, "text", formatJSON, formatYAML)
	return cmd
}

// hubVersion requests the version of the kubeconfig's hub.
func (c *connection) hubVersion(ctx context.Context) (*hubVersions, error) {
	h, err := c.open("")
	if err != nil {
		return nil, err
	}
	var info struct{ GitVersion, Orrery string }
	if err := h.get(ctx, asJSON, &info, route.Space(h.space).Path("version")); err != nil {
		return nil, err
	}
	return &hubVersions{URL: withoutUser(h.hub), Version: info.Orrery, Kubernetes: info.GitVersion}, nil
}

func printVersions(streams genericiooptions.IOStreams, o *output, v versions) error {
	if o.structured() {
		return o.data(streams.Out, v)
	}
	text := "client  " + v.Client + "\n"
	if v.Hub != nil {
		text += fmt.Sprintf("hub     %s  %s, Kubernetes API %s\n", hubOrUnknown(v.Hub.Version), v.Hub.URL, v.Hub.Kubernetes)
		if v.Hub.Version != v.Client {
			text += "the versions differ: upgrade the hubs first, then the agents\n"
		}
	}
	_, err := fmt.Fprint(streams.Out, text)
	return err
}

func hubOrUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}
