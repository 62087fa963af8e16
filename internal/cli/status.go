package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/ask"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
)

// watchEvery is how often --watch asks again.
const watchEvery = time.Second

// statusCommand is `orrery status`.
type statusCommand struct {
	connection *connection
	streams    genericiooptions.IOStreams
	output     output
	space      string
	states     []string
	placement  string
	watch      bool
}

func newStatus(streams genericiooptions.IOStreams) *cobra.Command {
	s := &statusCommand{connection: newConnection(true), streams: streams}
	cmd := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show the state of a space's objects at locations",
		Long: `Show, for a space, the progress of each Placement, and for each placed object and
location the state that the location reports. An object is Pending until its
location has reported it as it is now. Reports of a location that is not connected
are shown as stale. Removals that wait at locations for a confirmation are listed
by Placement, with the command that confirms them. Objects that a location still
has although they are no longer desired there are shown until they are gone: as
Removing, or as Orphaned with the reason why they stay.

` + objectHelp + `.
` + exitCodes,
		Example: `  orrery status
  orrery status --space shop deployment/web -n store
  orrery status -n store --state Failed,Held,Pending
  orrery status -o json | jq '.placements[] | select(.failed > 0)'`,
		Args: want(0, 2, "none, "+objectArgs),
		RunE: s.run,
	}
	s.connection.addFlags(cmd.Flags())
	s.output.addFlag(cmd, formatTable, formatWide, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&s.space, "space", "S", "", "space (default that of the kubeconfig)")
	cmd.Flags().StringSliceVar(&s.states, "state", nil, "only rows in these states, such as Failed,Held,Orphaned; stale selects those of locations that are not connected")
	cmd.Flags().StringVar(&s.placement, "placement", "", "only objects that this Placement places")
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "print again whenever the answer has changed")
	return cmd
}

func (s *statusCommand) run(cmd *cobra.Command, args []string) error {
	if err := s.output.check(cmd); err != nil {
		return err
	}
	query := url.Values{}
	h, err := s.connection.open(s.space)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		kind, name, err := splitObject(cmd, args)
		if err != nil {
			return err
		}
		id, err := s.connection.identity(kind, name)
		if err != nil {
			return err
		}
		query.Set("object", id.String())
	} else if cmd.Flags().Changed("namespace") {
		query.Set("namespace", *s.connection.flags.Namespace)
	}
	if len(s.states) > 0 {
		query.Set("state", strings.Join(s.states, ","))
	}
	if s.placement != "" {
		query.Set("placement", s.placement)
	}
	if !s.watch {
		_, err := s.print(cmd.Context(), h, query, nil)
		return err
	}
	return s.follow(cmd.Context(), h, query)
}

// follow prints whenever the answer has changed, until ctx ends, which is no error.
func (s *statusCommand) follow(ctx context.Context, h *hubClient, query url.Values) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last []byte
	for {
		shown, err := s.print(ctx, h, query, last)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		last = shown
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// print asks and prints, unless the answer is the one before. It returns the answer in a
// form to compare.
func (s *statusCommand) print(ctx context.Context, h *hubClient, query url.Values, before []byte) ([]byte, error) {
	var status ask.SpaceStatus
	if err := h.ask(ctx, route.Status, query, &status); err != nil {
		return nil, err
	}
	// The answer has times, not ages: ages change all the time.
	now := time.Now()
	compared := fmt.Appendf(nil, "%+v", status)
	if bytes.Equal(compared, before) {
		return compared, nil
	}
	if before != nil {
		s.blank()
	}
	if s.output.structured() {
		return compared, s.output.data(s.streams.Out, status)
	}
	if object := query.Get("object"); object == "" {
		if err := s.output.table(s.streams.Out, s.streams.ErrOut, placementsTable(status.Placements), "Placements in space "+string(status.Space)); err != nil {
			return nil, err
		}
		if err := printProblems(s.streams.Out, status.Placements); err != nil {
			return nil, err
		}
		there := func(name key.PlacementRef) bool {
			return slices.ContainsFunc(status.Placements, func(p ask.PlacementTotal) bool { return p.Name == name })
		}
		if err := printWaiting(s.streams.Out, status.Waiting, there); err != nil {
			return nil, err
		}
		if err := printLeft(s.streams.Out, status.LeftCounts); err != nil {
			return nil, err
		}
		if len(status.Placements) > 0 && len(status.Objects) > 0 {
			s.blank()
		}
	}
	return compared, s.output.table(s.streams.Out, s.streams.ErrOut, objectsTable(status.Objects, now), "placed objects in space "+string(status.Space))
}

// blank prints an empty line. If that fails, so does what is printed next.
func (s *statusCommand) blank() { _, _ = fmt.Fprintln(s.streams.Out) }

func placementsTable(all []ask.PlacementTotal) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Placement", "Locations", "Objects", "Assigned", "Applied", "Mutated", "Failed", "Held", "Stale")}
	for _, p := range all {
		name := string(p.Name)
		if p.Suspended {
			name += " (suspended)"
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{name, p.Locations, p.Objects, p.Assigned, p.Applied, p.Mutated, p.Failed, p.Held, p.Stale}})
	}
	return t
}

// printProblems prints which parts of Placements are invalid, which locations they name do
// not exist, which Helm releases they
// match in part, and which statuses are not returned.
func printProblems(w io.Writer, all []ask.PlacementTotal) error {
	for _, p := range all {
		problems := slices.Concat(p.Problems, p.PartOf)
		if len(p.Unknown) > 0 {
			problems = append(problems, "no location has the name "+strings.Join(p.Unknown, ", "))
		}
		if p.Spaces > 0 {
			problems = append(problems, fmt.Sprintf("reaches %d spaces; what is in one of them says orrery status --space NAME", p.Spaces))
		}
		if p.StatusLeftOut != "" {
			problems = append(problems, p.StatusLeftOut)
		}
		for _, problem := range problems {
			if _, err := fmt.Fprintf(w, "Placement %s: %s\n", p.Name, problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// printLeft prints how many objects are at locations where they are no longer desired.
func printLeft(w io.Writer, n v1alpha1.LeftCounts) error {
	for _, one := range []struct {
		n    int64
		what string
	}{
		{n.Leaving, "are being removed from their locations: see --state Removing"},
		{n.Leftovers, "stay at locations where they are no longer desired, since others use them: see --state Orphaned"},
	} {
		if one.n == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%d objects %s\n", one.n, one.what); err != nil {
			return err
		}
	}
	return nil
}

func objectsTable(all []ask.ObjectStatus, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Namespace", "Object", "Location", "State", "Since", "Reason+", "Message")}
	for _, o := range all {
		namespace, name := shownAs(o.Object)
		for _, p := range o.Places {
			state := p.State
			if p.Stale {
				state += " (stale)"
			}
			t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{namespace, name, string(p.Location), state, age(p.Since, now), p.Reason, oneLine(messageOf(&p))}})
		}
	}
	return t
}

// messageOf is what is said of a place: why it is not assigned, if it is not, and what the
// location says.
func messageOf(p *ask.PlaceStatus) string {
	said := cmp.Or(p.Message, p.Reason)
	if p.Cause == "" {
		return said
	}
	return strings.TrimSuffix(strings.ToLower(p.Cause)+": "+said, ": ")
}

// age is how long ago an RFC 3339 time was; empty if there is none.
func age(since string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(at))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
