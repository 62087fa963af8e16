package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"orrery.dev/orrery/internal/cli/demo"
)

func newDemo(program string, streams genericiooptions.IOStreams) *cobra.Command {
	config := demo.Config{Locations: 3, Program: program, Out: streams.Out}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo: a hub, locations with their agents and an application",
		Long: `Run a hub, locations with their agents and an application in one process, show
what happens to the application, and check after every step that both sides
agree. Then leave everything running, for you to try, until Ctrl-C.

Clusters are simulated unless their kubeconfigs are given: a space of a second
hub stands in for each, and Deployments in it become ready without running.
Clusters that are given are emptied again of what the demo placed on them.
` + exitCodes,
		Example: `  orrery demo
  orrery demo --once
  orrery demo --kubeconfig one.kubeconfig --kubeconfig two.kubeconfig --locations 2`,
		Args: want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config.Colour = printers.AllowsColorOutput(streams.Out)
			if err := config.Validate(); err != nil {
				return badUsage(cmd, "%v", err)
			}
			return demo.Run(cmd.Context(), config)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&config.Locations, "locations", config.Locations, "number of locations")
	flags.StringArrayVar(&config.Kubeconfigs, "kubeconfig", nil, "kubeconfig of a real cluster, for the first locations; may be repeated")
	flags.BoolVar(&config.Once, "once", false, "end after the story; exit code 0 only if every step came true")
	flags.StringVar(&config.DataDir, "data-dir", "", "an empty directory for everything that is written (default a temporary one)")
	return cmd
}
