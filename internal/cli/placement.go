package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

func newPlacement(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection(false)
	cmd := &cobra.Command{
		Use: "placement", Aliases: []string{"placements"},
		Short: "Confirm removals that follow from Placements",
		Long: `Confirm removals that follow from Placements. Use kubectl to create, edit and
delete Placements.
` + exitCodes,
	}
	c.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(newPlacementConfirmPrune(c, streams))
	group(cmd)
	return cmd
}

func newPlacementConfirmPrune(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var digest, space string
	cmd := &cobra.Command{
		Use:   "confirm-prune NAME",
		Short: "Confirm removals that wait at all locations because they are too many at once",
		Long: `Confirm removals that wait at locations because they are more at once than the
locations' spec.prune allows: those of objects that a Placement no longer places,
since it or a label was edited. Without --digest the command shows the removals
that wait at all locations and their digest. With it, exactly the removals that
the digest names are confirmed, and none if others wait by now. A location that is
not connected gets the confirmation when it is back.

The digest may also be that of another Placement of the space, as one that is gone,
or of removals of which no Placement is known.
`,
		Example: `  orrery placement confirm-prune web --space shop
  orrery placement confirm-prune web --space shop --digest 0f5c2a9be1d40c37`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				return badUsage(cmd, "placement %q: %s", name, strings.Join(problems, "; "))
			}
			h, err := c.open(space)
			if err != nil {
				return err
			}
			var all []prune.Waiting
			if err := h.query(cmd.Context(), route.Waiting, nil, &all); err != nil {
				return err
			}
			if digest == "" {
				return showWaiting(streams.Out, name, string(h.space), all)
			}
			i := slices.IndexFunc(all, func(w prune.Waiting) bool { return w.Digest == digest })
			if i < 0 {
				return fmt.Errorf("digest %q is not the digest of pending removals in space %q; see: orrery status", digest, h.space)
			}
			patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.ConfirmPruneAnnotation: digest}}}
			if err := h.merge(cmd.Context(), patch, spacePath(h.space, key.Placements, name)...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "placement %s: %d removals at %d locations confirmed\n", name, all[i].Pending, all[i].Locations)
			return err
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the removals to confirm, as the command shows without it")
	cmd.Flags().StringVarP(&space, "space", "S", "", "space (default that of the kubeconfig)")
	return cmd
}

// showWaiting prints the pending removals of one Placement, and returns errNo.
func showWaiting(out io.Writer, name, space string, all []prune.Waiting) error {
	i := slices.IndexFunc(all, func(w prune.Waiting) bool { return w.Placement == key.PlacementRef(name) })
	if i < 0 {
		return fmt.Errorf("placement %q of space %q has no removals that wait, as far as agents have said", name, space)
	}
	if _, err := fmt.Fprintln(out, waitingLine(all[i], true)); err != nil {
		return err
	}
	return errNo
}

// printWaiting prints the pending removals of a space, and how to confirm them. there reports
// whether a Placement exists.
func printWaiting(out io.Writer, all []prune.Waiting, there func(key.PlacementRef) bool) error {
	for _, w := range all {
		if _, err := fmt.Fprintln(out, waitingLine(w, there(w.Placement))); err != nil {
			return err
		}
	}
	return nil
}

// anyPlacement is shown where any Placement of the space can confirm a removal.
const anyPlacement = "NAME"

// confirmer returns the Placement that can confirm the pending removals: the one that no longer
// assigns the objects, unless it is in root.
func confirmer(w prune.Waiting) string {
	if w.Placement.Resolve("").Space == key.Root {
		return anyPlacement
	}
	return string(w.Placement)
}

func waitingLine(w prune.Waiting, there bool) string {
	subject, confirming, hint := "Placement "+string(w.Placement), confirmer(w), ""
	if !there {
		confirming = anyPlacement
	}
	if confirming == anyPlacement {
		hint = ", where NAME is any Placement of the space"
	}
	switch {
	case w.Placement == "":
		subject = "No Placement known"
	case !there:
		subject += ", which is gone"
	}
	if w.Digest == "" {
		hint = ""
	}
	return subject + ": " + prune.Explain(&w.WaitingPrune, confirming) + hint
}
