package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/manifest"
	"orrery.dev/orrery/internal/lib/process"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// joinOutput creates a join token and prints it.
type joinOutput struct {
	output
	tokenOnly bool
	expires   time.Duration
	manifest  bool
	agent     manifest.Agent
	rbac      []string
	// shard is the number of the agent's shard; 0 is the first shard, or the whole location.
	shard int32
	// shards is the number of agents that share the location, if it was requested.
	shards int32
}

// check also validates the lifetime of the token.
func (j *joinOutput) check(cmd *cobra.Command) error {
	if j.expires < time.Second {
		return badUsage(cmd, "--expires %s: want 1s or more", j.expires)
	}
	if err := j.checkManifest(cmd); err != nil {
		return err
	}
	return j.output.check(cmd)
}

// checkManifest also reads the rights of the agent from the flags.
func (j *joinOutput) checkManifest(cmd *cobra.Command) error {
	for _, only := range []string{"image", "agent-namespace", "rbac"} {
		if !j.manifest && cmd.Flags().Changed(only) {
			return badUsage(cmd, "--%s is about --manifest", only)
		}
	}
	switch {
	case !j.manifest:
		return nil
	case j.tokenOnly || cmd.Flags().Changed("output"):
		return badUsage(cmd, "--manifest: it is printed as YAML, and nothing else")
	case j.agent.Image == "":
		return badUsage(cmd, "--image: want the name of an image")
	}
	if problems := validation.IsDNS1123Label(j.agent.Namespace); len(problems) > 0 {
		return badUsage(cmd, "--agent-namespace %q: %s", j.agent.Namespace, strings.Join(problems, "; "))
	}
	rights, err := parseRights(j.rbac)
	if err != nil {
		return badUsage(cmd, "--rbac: %v", err)
	}
	j.agent.Rights = rights
	return nil
}

// parseRights parses "all", or a list of RESOURCE[.GROUP]. An empty list gives the rights that an
// agent needs to start.
func parseRights(all []string) (r manifest.Rights, err error) {
	for _, right := range all {
		if resource, group, grouped := strings.Cut(right, "."); right != "all" &&
			(len(validation.IsDNS1123Label(resource)) > 0 || grouped && len(validation.IsDNS1123Subdomain(group)) > 0) {
			return r, fmt.Errorf("%q: want all, or resources as RESOURCE[.GROUP], such as deployments.apps", right)
		}
	}
	if slices.Contains(all, "all") {
		return manifest.Rights{All: true}, nil
	}
	return manifest.Rights{Mapped: all}, nil
}

func (j *joinOutput) addFlags(cmd *cobra.Command) {
	j.addFlag(cmd, "text", formatJSON, formatYAML)
	cmd.Flags().BoolVar(&j.tokenOnly, "token-only", false, "print the token and nothing else")
	cmd.Flags().BoolVar(&j.manifest, "manifest", false, "print the objects by which the agent runs in its cluster, for kubectl apply")
	cmd.Flags().StringVar(&j.agent.Image, "image", manifest.DefaultImage(process.Version()), "the image of the agent, as make image builds it")
	cmd.Flags().StringVar(&j.agent.Namespace, "agent-namespace", manifest.Namespace, "the namespace in which the agent runs")
	cmd.Flags().StringSliceVar(&j.rbac, "rbac", nil, "which resources the agent may map: all, which makes the hub an administrator of the cluster, or RESOURCE[.GROUP],... (default none: see what is missing, and apply what orrery-agent rbac --placed prints)")
	cmd.Flags().DurationVar(&j.expires, "expires", 24*time.Hour, "for how long the token can be used; it works once")
}

// share reads how many agents share the location of the token.
func (j *joinOutput) share(cmd *cobra.Command, h *hubClient, name string) error {
	if j.shard == 0 && !j.manifest {
		return nil
	}
	l, err := h.location(cmd.Context(), name)
	if err != nil {
		return err
	}
	if j.shards = max(1, l.Spec.Shards); j.manifest && j.shard > j.shards {
		return fmt.Errorf("--shard %d: location %s is for %d (to set another number: orrery location shards %s N)", j.shard, name, j.shards, name)
	}
	return nil
}

// isOfShard returns an error if the token is not for the shard. A hub of a version without shards
// ignores the requested shard, and its token would replace the first agent.
func isOfShard(token string, shard int32) error {
	if shard <= 1 {
		return nil
	}
	join, err := wire.ParseJoin(token)
	if err != nil {
		return err
	}
	if join.Shard != int(shard) {
		return fmt.Errorf("the hub has made a join token for shard %d, not for %d: it is of a version that knows no shards", max(1, join.Shard), shard)
	}
	return nil
}

// print creates a token and prints it.
func (j *joinOutput) print(cmd *cobra.Command, h *hubClient, streams genericiooptions.IOStreams, name, what string) error {
	var made v1alpha1.LocationToken
	seconds := int64(j.expires / time.Second)
	request := v1alpha1.LocationToken{TypeMeta: typeMeta("LocationToken"), Spec: v1alpha1.LocationTokenSpec{ExpirationSeconds: &seconds, Shard: j.shard}}
	if err := h.create(cmd.Context(), request, &made, rootPath(key.Locations, name, "token")...); err != nil {
		return fmt.Errorf("make a join token (try again with: orrery location token %s): %w", name, err)
	}
	token := made.Status.Token
	if err := isOfShard(token, j.shard); err != nil {
		return err
	}
	run := "echo " + token + " | orrery-agent --join - --kubeconfig FILE" // all users of a machine can read arguments
	if j.shard > 0 {
		run += fmt.Sprintf(" --shards %d/%d", j.shard, max(j.shard, j.shards))
	}
	switch {
	case j.manifest:
		j.agent.Shard = key.NewShard(int(max(1, j.shard)), int(j.shards))
		j.agent.Location, j.agent.Join = key.Location(name), token
		return manifest.Print(streams.Out, j.agent.Objects())
	case j.tokenOnly:
		_, err := fmt.Fprintln(streams.Out, token)
		return err
	case j.structured():
		return j.data(streams.Out, map[string]string{
			"location": name, "hub": h.hub, "token": token, "command": run,
			"expires": made.Status.ExpirationTimestamp.UTC().Format(time.RFC3339),
		})
	}
	_, err := fmt.Fprintf(streams.Out, `location %s %s

Run at the location, once and within %s, with a kubeconfig of its cluster
("orrery-agent rbac" prints what it has to be allowed):

  %s

`, name, what, duration.HumanDuration(j.expires), run)
	return err
}
