package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/xlab/treeprint"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// maxNamed is the number of locations with the same state that a tree names.
const maxNamed = 3

// treeCommand is `orrery tree`.
type treeCommand struct {
	connection *connection
	streams    genericiooptions.IOStreams
	space      string
}

func newTree(streams genericiooptions.IOStreams) *cobra.Command {
	t := &treeCommand{connection: newConnection(false), streams: streams}
	cmd := &cobra.Command{
		Use:   "tree [PLACEMENT]",
		Short: "Show Placements, the objects that they place, and their state at locations",
		Long: `Show the Placements of a space as a tree: below each the objects that it places, and
below each object its states at locations. Locations with the same state share a
line, which names the first three of them. "orrery status" names all.
` + exitCodes,
		Example: `  orrery tree
  orrery tree web --space shop`,
		Args: want(0, 1, "none, or PLACEMENT"),
		RunE: t.run,
	}
	t.connection.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&t.space, "space", "S", "", "space (default that of the kubeconfig)")
	return cmd
}

func (t *treeCommand) run(cmd *cobra.Command, args []string) error {
	h, err := t.connection.open(t.space)
	if err != nil {
		return err
	}
	tree := treeprint.NewWithRoot("space " + string(h.space))
	if len(args) > 0 {
		if err := t.add(cmd.Context(), h, tree, args[0]); err != nil {
			return err
		}
	} else if err := t.addAll(cmd.Context(), h, tree); err != nil {
		return err
	}
	_, err = fmt.Fprint(t.streams.Out, tree.String())
	return err
}

// addAll adds all Placements of the space.
func (t *treeCommand) addAll(ctx context.Context, h *hubClient, tree treeprint.Tree) error {
	var status queries.SpaceStatus
	if err := h.query(ctx, route.Status, url.Values{"limit": {"1"}}, &status); err != nil {
		return err
	}
	if len(status.Placements) == 0 {
		_, err := fmt.Fprintln(t.streams.ErrOut, "no Placements in space "+string(h.space))
		return err
	}
	for _, p := range status.Placements {
		if err := t.add(ctx, h, tree, string(p.Name)); err != nil {
			return err
		}
	}
	return nil
}

// add adds a Placement with its objects.
func (t *treeCommand) add(ctx context.Context, h *hubClient, tree treeprint.Tree, name string) error {
	status, err := readStatus(ctx, h, url.Values{"placement": {name}})
	if err != nil {
		return err
	}
	branch := tree.AddBranch("placement " + name)
	for _, p := range status.Placements {
		branch.SetValue("placement " + name + "  " + summaryOf(p))
		for _, problem := range problemsOf(p) {
			branch.AddNode("problem: " + problem)
		}
	}
	for _, object := range status.Objects {
		namespace, shown := shownAs(object.Object)
		if namespace != "" {
			shown += " (" + namespace + ")"
		}
		addStates(branch.AddBranch(shown), object.Places)
	}
	return nil
}

// summaryOf summarizes a Placement in one line.
func summaryOf(p queries.PlacementTotal) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d objects at %d locations: %d of %d applied, %d healthy", p.Objects, p.Locations, p.Applied, p.Assigned, p.Healthy)
	for _, count := range []struct {
		n    int64
		what string
	}{{p.Failed, "failed"}, {p.Held, "held"}, {p.Stale, "stale"}} {
		if count.n > 0 {
			fmt.Fprintf(&text, ", %d %s", count.n, count.what)
		}
	}
	if p.Suspended {
		text.WriteString(" (suspended)")
	}
	return text.String()
}

// addStates adds a line for each different state, in the order of the first location that has it.
func addStates(branch treeprint.Tree, places []queries.PlaceStatus) {
	var order []string
	locations := map[string][]key.Location{}
	for i := range places {
		state := stateOf(&places[i])
		if locations[state] == nil {
			order = append(order, state)
		}
		locations[state] = append(locations[state], places[i].Location)
	}
	for _, state := range order {
		branch.AddNode(nameSome(locations[state]) + ": " + state)
	}
}

// stateOf describes the state of an object at a location.
func stateOf(p *queries.PlaceStatus) string {
	text := p.State
	if p.Health != "" {
		text += ", " + string(p.Health)
	}
	if p.Stale {
		text += " (stale)"
	}
	if message := oneLine(messageOf(p)); message != "" {
		text += ": " + message
	}
	return text
}

// nameSome names the first locations and counts the others.
func nameSome(all []key.Location) string {
	var names []string
	for _, l := range all[:min(len(all), maxNamed)] {
		names = append(names, string(l))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
