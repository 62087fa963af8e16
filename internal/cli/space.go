package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// pollEvery is the interval at which waitFor checks its condition.
const pollEvery = 100 * time.Millisecond

func newSpace(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection(false)
	cmd := &cobra.Command{
		Use: "space", Aliases: []string{"spaces"},
		Short: "Create, list, use and delete spaces",
		Long: `Create, list and delete spaces: Kubernetes-compatible APIs that store descriptions
of workloads and run nothing.
` + exitCodes,
	}
	c.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(newSpaceCreate(c, streams), newSpaceList(c, streams), newSpaceDelete(c, streams), newSpaceKubeconfig(c, streams), newSpaceUse(c, streams))
	group(cmd)
	return cmd
}

func newSpaceCreate(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	timeout := 30 * time.Second
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a space and wait until it is served",
		Example: `  orrery space create shop`,
		Args:    want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			space := v1alpha1.Space{TypeMeta: typeMeta("Space"), ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := h.create(cmd.Context(), space, nil, rootPath(key.Spaces)...); err != nil {
				return err
			}
			err = waitFor(cmd.Context(), timeout, func(ctx context.Context) (bool, error) {
				err := h.get(ctx, asJSON, &space, rootPath(key.Spaces, name)...)
				return meta.IsStatusConditionTrue(space.Status.Conditions, v1alpha1.ConditionReady), err
			})
			if err != nil {
				return fmt.Errorf("wait for space %q: %w", name, err)
			}
			_, err = fmt.Fprintf(streams.Out, "space %s created: %s\n", name, space.Status.URL)
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait until the space is served")
	return cmd
}

func newSpaceList(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the spaces",
		Args:  want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.list(cmd, streams, &o, key.Spaces, "spaces; create one with: orrery space create NAME")
		},
	}
	o.addListFlag(cmd, objectEntries("space.orrery.dev"))
	return cmd
}

func newSpaceDelete(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	timeout := 5 * time.Minute
	wait := true
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a space and all that is in it",
		Long: `Delete a space and all that is in it, whatever finalizers that has. Its objects
are removed from locations, as far as their spec.prune allows without confirmation.
`,
		Example: `  orrery space delete shop`,
		Args:    want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			if err := h.delete(cmd.Context(), rootPath(key.Spaces, name)...); err != nil {
				return err
			}
			if wait {
				if err := h.waitGone(cmd.Context(), timeout, rootPath(key.Spaces, name)); err != nil {
					return fmt.Errorf("wait for the end of space %q: %w", name, err)
				}
			}
			_, err = fmt.Fprintf(streams.Out, "space %s deleted\n", name)
			return err
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", wait, "wait until everything in the space is gone")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait")
	return cmd
}

// list prints the objects of an Orrery resource in root. A user without access to root gets the
// locations that the space of the kubeconfig can use.
func (c *connection) list(cmd *cobra.Command, streams genericiooptions.IOStreams, o *output, resource key.Resource, empty string) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	h, err := c.open("")
	if err != nil {
		return err
	}
	read := func(accept string, into any) (ofRoot bool, err error) {
		err = h.get(cmd.Context(), accept, into, rootPath(resource)...)
		if resource != key.Locations || !apierrors.IsForbidden(err) {
			return true, err
		}
		return h.space == key.Root, h.get(cmd.Context(), accept, into, spacePath(h.space, resource)...)
	}
	if o.structured() {
		var list map[string]any
		if _, err := read(asJSON, &list); err != nil {
			return err
		}
		return o.data(streams.Out, list)
	}
	var table metav1.Table
	ofRoot, err := read(asTable, &table)
	if err != nil {
		return err
	}
	if !ofRoot {
		withoutCounts(&table)
	}
	return o.table(streams.Out, streams.ErrOut, &table, empty)
}

// withoutCounts removes the columns of counts from a table of locations. A space does not see the
// counts, since they include the objects of other spaces.
func withoutCounts(t *metav1.Table) {
	counts := []string{"Assigned", "Applied", "Healthy", "Failed", "Held", "Stale", "Leaving"}
	for i, column := range slices.Backward(t.ColumnDefinitions) {
		if !slices.Contains(counts, column.Name) {
			continue
		}
		t.ColumnDefinitions = slices.Delete(t.ColumnDefinitions, i, i+1)
		for row := range t.Rows {
			t.Rows[row].Cells = slices.Delete(t.Rows[row].Cells, i, i+1)
		}
	}
}

// waitGone waits until the object at a path is gone.
func (h *hubClient) waitGone(ctx context.Context, timeout time.Duration, path []string) error {
	return waitFor(ctx, timeout, func(ctx context.Context) (bool, error) {
		err := h.get(ctx, asJSON, nil, path...)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// waitFor polls f until it returns true or an error, or until the timeout.
func waitFor(ctx context.Context, timeout time.Duration, f wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, timeout, true, f)
	if ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("timed out after %s", timeout)
	}
	return err
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}
