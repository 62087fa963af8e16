package cli

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

const (
	// completionTimeout is how long a completion waits for the hub. After that the shell shows none.
	completionTimeout = 3 * time.Second
	// maxCompletions is the largest number of names that a completion requests.
	maxCompletions = 500
)

// source returns the possible values of an argument or flag.
type source func(ctx context.Context, h *hubClient) ([]string, error)

// argumentSources are the sources of the first argument, by the path of the command.
func argumentSources() map[string]source {
	sources := map[string]source{
		"placement confirm-prune": namesIn(key.Placements, false),
		"tree":                    namesIn(key.Placements, false),
	}
	for _, command := range []string{"why", "status", "diff", "render"} {
		sources[command] = placedObjects
	}
	for _, command := range []string{"delete", "kubeconfig", "use"} {
		sources["space "+command] = namesIn(key.Spaces, true)
	}
	for _, command := range []string{"token", "revoke", "readmit", "describe", "pause", "resume", "shards", "accept", "confirm-prune", "remove"} {
		sources["location "+command] = namesIn(key.Locations, true)
	}
	return sources
}

// addCompletions adds completions of names to a command and its subcommands. path is the path of the command
// below the program.
func addCompletions(cmd *cobra.Command, path string) {
	if values := argumentSources()[path]; values != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 { // the commands complete their first argument only
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(values)(cmd, args, toComplete)
		}
	}
	for flag, values := range map[string]source{
		"space": namesIn(key.Spaces, true), "location": namesIn(key.Locations, false), "placement": namesIn(key.Placements, false),
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, complete(values)); err != nil {
			panic(err) // the flag exists
		}
	}
	for _, sub := range cmd.Commands() {
		addCompletions(sub, strings.TrimPrefix(path+" "+sub.Name(), " "))
	}
}

// complete returns a completion function with the values that the hub knows. If the hub does not answer in
// time, it completes nothing.
func complete(values source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		h, err := completionClient(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := values(ctx, h)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionClient returns a client for the hub and the space that the flags of the command select.
func completionClient(cmd *cobra.Command) (*hubClient, error) {
	c := newConnection(false)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.addFlags(own)
	var problem error
	own.VisitAll(func(flag *pflag.Flag) {
		given := cmd.Flags().Lookup(flag.Name)
		if given == nil || !given.Changed {
			return
		}
		list, isList := given.Value.(pflag.SliceValue)
		if to, ok := flag.Value.(pflag.SliceValue); ok && isList {
			problem = errors.Join(problem, to.Replace(list.GetSlice()))
			return
		}
		problem = errors.Join(problem, own.Set(flag.Name, given.Value.String()))
	})
	if problem != nil {
		return nil, problem
	}
	space := ""
	if flag := cmd.Flags().Lookup("space"); flag != nil && flag.Changed {
		space = flag.Value.String()
	}
	return c.open(space)
}

// namesIn returns a source of the names of a resource's objects in root or, if root is false, in the space.
func namesIn(resource key.Resource, root bool) source {
	return func(ctx context.Context, h *hubClient) ([]string, error) {
		space := h.space
		if root {
			space = key.Root
		}
		var list metav1.PartialObjectMetadataList
		if err := h.get(ctx, asJSON, &list, spacePath(space, resource)...); err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	}
}

// placedObjects returns placed objects of the space, as RESOURCE.GROUP/NAME.
func placedObjects(ctx context.Context, h *hubClient) ([]string, error) {
	var status queries.SpaceStatus
	if err := h.query(ctx, route.Status, url.Values{"limit": {strconv.Itoa(maxCompletions)}}, &status); err != nil {
		return nil, err
	}
	var names []string
	for _, object := range status.Objects {
		_, name := shownAs(object.Object)
		names = append(names, name)
	}
	return names, nil
}
