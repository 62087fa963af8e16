package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

func newLocation(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection(false)
	cmd := &cobra.Command{
		Use: "location", Aliases: []string{"locations", "loc"},
		Short: "Enrol, list, pause and remove locations",
		Long: `Enrol, list, pause and remove locations: the clusters that run workloads.
` + exitCodes,
	}
	c.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(
		newLocationAdd(c, streams), newLocationToken(c, streams), newLocationRevoke(c, streams), newLocationReadmit(c, streams),
		newLocationList(c, streams), newLocationDescribe(c, streams),
		newLocationMapping(c, streams, "pause", "paused", "Pause a location: its agent changes nothing until it is resumed", v1alpha1.MappingPaused),
		newLocationMapping(c, streams, "resume", "resumed", "Resume a location that was paused", v1alpha1.MappingActive),
		newLocationShards(c, streams), newLocationAccept(c, streams), newLocationConfirmPrune(c, streams),
		newLocationRemove(c, streams),
	)
	group(cmd)
	return cmd
}

func newLocationAdd(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var labels, properties, takesOver []string
	var endpointURL, namespaces string
	var j joinOutput
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Create a location and print the command to run at its site",
		Long: `Create a location and print the one command to run at its site: orrery-agent with
a join token. The token is shown once, and can be used once before it expires. The agent
exchanges it for a credential, which it renews automatically.

With --manifest it prints only the Kubernetes objects that run the agent in the cluster
itself: a Namespace, a ServiceAccount with its rights, a Secret with the token, a
PersistentVolumeClaim for its state, and a Deployment.

With --takes-over the location takes over the objects in the cluster of a location that
was removed, or whose hub was lost. Give the value of the label orrery.dev/location on
these objects. Objects that are no longer placed stay until their removal is confirmed.

With --namespaces Prefixed, objects in namespace NS of space S are placed in namespace
S--NS of the cluster, so that spaces can use the same names. This can't be changed later.
Cluster-scoped objects are then refused.
`,
		Example: `  orrery location add berlin --label region=eu --label stage=prod
  orrery location add plant7 --url inside
  orrery location add berlin --token-only > join; orrery-agent --join-file join
  orrery location add berlin --manifest | kubectl --context berlin apply -f -`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			parsed, err := parseLabels(labels)
			if err != nil {
				return badUsage(cmd, "%v", err)
			}
			known, err := parseProperties(properties)
			if err != nil {
				return badUsage(cmd, "%v", err)
			}
			for _, mark := range takesOver {
				if err := key.ValidateMark(mark); err != nil {
					return badUsage(cmd, "--takes-over: %v", err)
				}
			}
			if all := []string{"", string(v1alpha1.NamespacesSame), string(v1alpha1.NamespacesPrefixed)}; !slices.Contains(all, namespaces) {
				return badUsage(cmd, "--namespaces %q: want Same or Prefixed", namespaces)
			}
			if err := j.check(cmd); err != nil {
				return err
			}
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			annotations, err := h.preferring(cmd.Context(), endpointURL)
			if err != nil {
				return err
			}
			location := v1alpha1.Location{TypeMeta: typeMeta("Location"), ObjectMeta: metav1.ObjectMeta{Name: name, Labels: parsed, Annotations: annotations}}
			location.Spec.Properties, location.Spec.TakesOver, location.Spec.Namespaces = known, takesOver, v1alpha1.NamespacePlacing(namespaces)
			if err := h.create(cmd.Context(), location, nil, rootPath(key.Locations)...); err != nil {
				return err
			}
			return j.print(cmd, h, streams, name, "created")
		},
	}
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label KEY=VALUE, which placements select by; may be repeated")
	cmd.Flags().StringArrayVar(&properties, "property", nil, "property NAME=VALUE, which Customizers may use; JSON, or else a string; may be repeated")
	cmd.Flags().StringArrayVar(&takesOver, "takes-over", nil, "label value NAME.UID8 of a deleted location whose objects in the cluster this location takes over; may be repeated")
	cmd.Flags().StringVar(&namespaces, "namespaces", "", "Same, or Prefixed: each space has its own namespaces in the cluster (default Same)")
	cmd.Flags().StringVar(&endpointURL, "url", "", "name or URL of the advertised hub endpoint that the agent uses (default the first one)")
	j.addFlags(cmd)
	return cmd
}

func newLocationToken(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var j joinOutput
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Create a join token for a location, for a new agent or to admit one again",
		Long: `Create a join token for a location. An earlier token that was not used becomes invalid.
The agent that joined before keeps working until the new token is used, and is then
locked out.

If several agents share the location, each joins with a token for its own shard.
`,
		Example: `  orrery location token berlin
  TOKEN=$(orrery location token berlin --token-only)
  orrery location token berlin --shard 2`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.check(cmd); err != nil {
				return err
			}
			if j.shard < 0 || j.shard > key.MaxShards {
				return badUsage(cmd, "--shard %d: want a number from 1 to %d", j.shard, key.MaxShards)
			}
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			if err := j.share(cmd, h, name); err != nil {
				return err
			}
			return j.print(cmd, h, streams, name, "has a new join token; when it is used, the agent that joined before is locked out")
		},
	}
	j.addFlags(cmd)
	cmd.Flags().Int32Var(&j.shard, "shard", 0, "shard number of the agent, if several share the location (default the first, or the whole)")
	return cmd
}

func newLocationRevoke(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Lock out the agent of a location; its cluster keeps running",
		Long: `Lock out the agent of a location immediately. Its sessions end, and its credentials and
join tokens become invalid. The workloads in its cluster keep running. To admit an agent
again, create a join token for it with "orrery location token NAME".
`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			if err := h.delete(cmd.Context(), rootPath(key.Locations, name, "token")...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s revoked; let an agent in again with: orrery location token %s\n", name, name)
			return err
		},
	}
}

func newLocationReadmit(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var shard int32
	cmd := &cobra.Command{
		Use:   "readmit NAME",
		Short: "Admit an agent again that was restored from a snapshot",
		Long: `Admit an agent again without a new token. The hub locks an agent out if it presents a
credential that it had already renewed (condition Enrolled, reason CredentialReused), for
example after a snapshot of its machine or volume was restored. The agent renews that
credential within a minute; later credentials become invalid. If the agent's disk may have
been copied, use "orrery location token NAME" instead, and install the agent again.
`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			request := v1alpha1.LocationToken{TypeMeta: typeMeta("LocationToken"), Spec: v1alpha1.LocationTokenSpec{Shard: shard, Readmit: true}}
			var made v1alpha1.LocationToken
			if err := h.create(cmd.Context(), request, &made, rootPath(key.Locations, name, "token")...); err != nil {
				return err
			}
			if made.Status.Token != "" {
				return errors.New("the hub is of a version that can't readmit an agent; upgrade it, or set the agent up anew by: orrery location token " + name)
			}
			_, err = fmt.Fprintf(streams.Out, "location %s: its agent is let in when it asks next; follow that with: orrery location describe %s\n", name, name)
			return err
		},
	}
	cmd.Flags().Int32Var(&shard, "shard", 0, "shard number of the agent, if several share the location")
	return cmd
}

func newLocationList(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the locations",
		Args:  want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.list(cmd, streams, &o, key.Locations, "locations; enrol one with: orrery location add NAME")
		},
	}
	o.addListFlag(cmd, objectEntries("location.orrery.dev"))
	return cmd
}

func newLocationShards(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "shards NAME N",
		Short: "Set how many agents share a location",
		Long: `Set how many agents share a location. Each agent serves a fixed part of the spaces.
The hub then accepts only agents that were started with --shards K/N for this N. Agents
with another N keep managing their objects in the cluster until they end. Stop them, and
start agents with the new N, each with a join token for its shard (orrery location token
NAME --shard K). The first agent keeps its present credential.
`,
		Example: `  orrery location shards berlin 2
  orrery location token berlin --shard 2`,
		Args: want(2, 2, "NAME N"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 || n > key.MaxShards {
				return badUsage(cmd, "%q: want a number from 1 to %d", args[1], key.MaxShards)
			}
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			if err := h.merge(cmd.Context(), map[string]any{"spec": map[string]any{"shards": n}}, rootPath(key.Locations, name)...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s is for agents with --shards 1/%d to %d/%d\n", name, n, n, n)
			return err
		},
	}
}

// newLocationMapping returns a command that sets spec.mapping of a location.
func newLocationMapping(c *connection, streams genericiooptions.IOStreams, verb, done, short string, mapping v1alpha1.Mapping) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			patch := map[string]any{"spec": map[string]any{"mapping": mapping}}
			if err := h.merge(cmd.Context(), patch, rootPath(key.Locations, name)...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s %s\n", name, done)
			return err
		},
	}
}

// parseLabels parses labels of the form KEY=VALUE.
func parseLabels(all []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, l := range all {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return nil, fmt.Errorf("label %q: want KEY=VALUE", l)
		}
		if problems := validation.IsQualifiedName(k); len(problems) > 0 {
			return nil, fmt.Errorf("label %q: key: %s", l, strings.Join(problems, "; "))
		}
		if problems := validation.IsValidLabelValue(v); len(problems) > 0 {
			return nil, fmt.Errorf("label %q: value: %s", l, strings.Join(problems, "; "))
		}
		labels[k] = v
	}
	return labels, nil
}
