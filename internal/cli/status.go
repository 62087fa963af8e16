package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// statusPage is the number of objects per request.
const statusPage = 1000

// statusCommand is `orrery status`.
type statusCommand struct {
	connection *connection
	streams    genericiooptions.IOStreams
	output     output
	space      string
	states     []string
	placement  string
	allSpaces  bool
	// one reports whether the arguments name a single object.
	one   bool
	watch bool
	// wait makes the command wait for the state what, up to timeout.
	wait    bool
	what    string
	timeout time.Duration
}

func newStatus(streams genericiooptions.IOStreams) *cobra.Command {
	s := &statusCommand{connection: newConnection(true), streams: streams}
	cmd := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show the state of a space's objects at locations",
		Long: `Show, for a space, the progress of each Placement, and for each placed object and
location the state that the location reports. An object is Pending until its
location has reported it as it is now. Reports of a location that can't be seen now
are shown as stale. Removals that wait at locations for a confirmation are listed
by Placement, with the command that confirms them. Objects that a location still
has although they are no longer desired there are shown until they are gone: as
Removing, or as Orphaned with the reason why they stay.

With --all-spaces it shows all spaces. If it can't read the status of a space, it shows the
others, names that space, and fails.

With --watch it goes on with what changes, as it happens. With --wait it waits until all
that is asked for is so: applied everywhere, healthy besides, or at no location any more (gone).

` + objectHelp + `.
` + exitCodes,
		Example: `  orrery status
  orrery status --space shop deployment/web -n store
  orrery status -n store --state Failed,Held,Pending
  orrery status deployment/web --wait --for healthy --timeout 2m
  orrery status --all-spaces --state Failed
  orrery status -o json | jq '.placements[] | select(.failed > 0)'`,
		Args: want(0, 2, "none, "+objectArgs),
		RunE: s.run,
	}
	s.connection.addFlags(cmd.Flags())
	s.output.addListFlag(cmd, statusEntries())
	cmd.Flags().StringVarP(&s.space, "space", "S", "", "space (default that of the kubeconfig)")
	cmd.Flags().BoolVarP(&s.allSpaces, "all-spaces", "A", false, "the objects of all spaces, for operators")
	cmd.Flags().StringSliceVar(&s.states, "state", nil, "only rows in these states, such as Failed,Held,Orphaned; stale selects those of locations that can't be seen now")
	cmd.Flags().StringVar(&s.placement, "placement", "", "only objects that this Placement places")
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "print what there is, and then what changes")
	cmd.Flags().BoolVar(&s.wait, "wait", false, "wait until all objects are in the state of --for")
	cmd.Flags().StringVar(&s.what, "for", forHealthy, "what --wait waits for: applied, healthy (and applied), gone")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 5*time.Minute, "how long --wait waits; after that the exit code is 3")
	return cmd
}

func (s *statusCommand) run(cmd *cobra.Command, args []string) error {
	if err := s.output.check(cmd); err != nil {
		return err
	}
	if !slices.Contains([]string{forApplied, forHealthy, forGone}, s.what) {
		return badUsage(cmd, "--for %q: want one of %s, %s, %s", s.what, forApplied, forHealthy, forGone)
	}
	switch {
	case s.wait && s.timeout <= 0:
		return badUsage(cmd, "--timeout %s: want a time above 0", s.timeout)
	case s.watch && s.output.structured() && !s.output.complete():
		return badUsage(cmd, "--watch supports only -o table, wide, json and yaml")
	case s.wait && (s.watch || len(s.states) > 0):
		return badUsage(cmd, "--wait goes with neither --watch nor --state")
	case s.allSpaces && (s.wait || s.watch || s.space != "" || s.placement != "" || len(args) > 0):
		return badUsage(cmd, "--all-spaces goes with none of --wait, --watch, --space, --placement and KIND/NAME")
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
		s.one = true
	} else if cmd.Flags().Changed("namespace") {
		query.Set("namespace", *s.connection.flags.Namespace)
	}
	if len(s.states) > 0 {
		query.Set("state", strings.Join(s.states, ","))
	}
	if s.placement != "" {
		query.Set("placement", s.placement)
	}
	switch {
	case s.allSpaces:
		return s.printSpaces(cmd.Context(), h, query)
	case s.watch:
		return s.printChanges(cmd.Context(), h, query)
	case s.wait:
		return s.waitFor(cmd.Context(), h, query)
	default:
		return s.print(cmd.Context(), h, query)
	}
}

// readStatus requests the status of a space page by page.
func readStatus(ctx context.Context, h *hubClient, query url.Values) (status queries.SpaceStatus, err error) {
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(statusPage))
	if err := h.query(ctx, route.Status, query, &status); err != nil {
		return status, err
	}
	for status.Continue != "" {
		query.Set("continue", status.Continue)
		var next queries.SpaceStatus
		if err := h.query(ctx, route.Status, query, &next); err != nil {
			return status, err
		}
		status.Objects, status.Continue = append(status.Objects, next.Objects...), next.Continue
	}
	return status, nil
}

// print requests the status of a space, and prints it.
func (s *statusCommand) print(ctx context.Context, h *hubClient, query url.Values) error {
	status, err := readStatus(ctx, h, query)
	if err != nil {
		return err
	}
	if s.output.structured() {
		return s.output.data(s.streams.Out, status)
	}
	return s.printStatus(status)
}

// printStatus prints a status as text.
func (s *statusCommand) printStatus(status queries.SpaceStatus) error {
	if !s.one {
		if err := s.printHead(status); err != nil {
			return err
		}
		if len(status.Placements) > 0 && len(status.Objects) > 0 {
			s.blank()
		}
	}
	return s.output.table(s.streams.Out, s.streams.ErrOut, objectsTable(status.Objects, time.Now()), "placed objects in space "+string(status.Space))
}

// printHead prints a status without its objects.
func (s *statusCommand) printHead(status queries.SpaceStatus) error {
	if s.one {
		return nil
	}
	if err := s.output.table(s.streams.Out, s.streams.ErrOut, placementsTable(status.Placements), "Placements in space "+string(status.Space)); err != nil {
		return err
	}
	return s.printRemarks(status)
}

// printRemarks prints the problems of Placements, pending removals, and the number of objects that are
// no longer assigned.
func (s *statusCommand) printRemarks(status queries.SpaceStatus) error {
	if n := status.OmittedPlacements; n > 0 {
		if _, err := fmt.Fprintf(s.streams.Out, "and %d more Placements in space %s, which would take too long: name one with --placement\n", n, status.Space); err != nil {
			return err
		}
	}
	if err := printProblems(s.streams.Out, status.Placements); err != nil {
		return err
	}
	there := func(name key.PlacementRef) bool {
		return slices.ContainsFunc(status.Placements, func(p queries.PlacementTotal) bool { return p.Name == name })
	}
	if err := printWaiting(s.streams.Out, status.Waiting, there); err != nil {
		return err
	}
	return printLeft(s.streams.Out, status.LeftCounts)
}

// blank prints an empty line. If that fails, the next write fails, too.
func (s *statusCommand) blank() { _, _ = fmt.Fprintln(s.streams.Out) }

func placementsTable(all []queries.PlacementTotal) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Placement", "Locations", "Objects", "Assigned", "Applied", "Healthy", "Mutated", "Failed", "Held", "Stale")}
	for _, p := range all {
		name := string(p.Name)
		if p.Suspended {
			name += " (suspended)"
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{name, p.Locations, p.Objects, p.Assigned, p.Applied, p.Healthy, p.Mutated, p.Failed, p.Held, p.Stale}})
	}
	return t
}

// printProblems prints invalid parts of Placements, unknown locations, partly matched Helm
// releases, and statuses that are not returned.
func printProblems(w io.Writer, all []queries.PlacementTotal) error {
	for _, p := range all {
		for _, problem := range problemsOf(p) {
			if _, err := fmt.Fprintf(w, "Placement %s: %s\n", p.Name, problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// problemsOf describes the problems of a Placement.
func problemsOf(p queries.PlacementTotal) []string {
	problems := slices.Concat(p.Problems, p.PartOf)
	if len(p.Unknown) > 0 {
		problems = append(problems, "no location that accepts objects of this space has the name "+strings.Join(p.Unknown, ", "))
	}
	if p.Spaces > 0 {
		problems = append(problems, fmt.Sprintf("it selects %d spaces; for the objects of one: orrery status --space NAME", p.Spaces))
	}
	if p.StatusLeftOut != "" {
		problems = append(problems, p.StatusLeftOut)
	}
	return problems
}

// printLeft prints how many objects remain at locations that they are no longer assigned to.
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

func objectsTable(all []queries.ObjectStatus, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Namespace", "Object", "Location", "State", "Health", "Since", "Reason+", "Message")}
	for _, o := range all {
		namespace, name := shownAs(o.Object)
		for _, p := range o.Places {
			state := p.State
			if p.Stale {
				state += " (stale)"
			}
			t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{namespace, name, string(p.Location), state, string(p.Health), age(p.Since, now), p.Reason, oneLine(messageOf(&p))}})
		}
	}
	return t
}

// messageOf describes an object at a location: why it is not assigned, the reported message, and
// why it is not healthy.
func messageOf(p *queries.PlaceStatus) string {
	text := cmp.Or(p.Message, p.Reason)
	if p.HealthNote != "" {
		text = strings.TrimPrefix(text+"; "+p.HealthNote, "; ")
	}
	if p.Cause == "" {
		return text
	}
	return strings.TrimSuffix(causeOf(p)+": "+text, ": ")
}

// causeOf returns the reason why the object is not assigned to the location; empty if it is.
func causeOf(p *queries.PlaceStatus) string {
	if p.Cause == queries.CauseUnassigned && p.LetGoBy != "" {
		return "unassigned by " + string(p.LetGoBy)
	}
	return strings.ToLower(p.Cause)
}

// age formats the time since an RFC 3339 time; empty if there is none.
func age(since string, now time.Time) string {
	start, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(start))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
