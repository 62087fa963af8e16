package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// topEvery is the interval at which --watch reads the locations. The hub computes their counts
	// at each read.
	topEvery = 2 * time.Second
	// topAround is the number of lines on a screen that show neither locations nor the summary: the prompt.
	topAround = 1
)

// topCommand is `orrery top`.
type topCommand struct {
	connection *connection
	streams    genericiooptions.IOStreams
	output     output
	space      string
	watch      bool
	rows       int
}

func newTop(streams genericiooptions.IOStreams) *cobra.Command {
	t := &topCommand{connection: newConnection(false), streams: streams}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the fleet on one screen, locations with something wrong first",
		Long: `Show the locations on one screen, those with something wrong first: lost, with a
cluster that does not answer, not compatible, with objects that failed, that are not
healthy, or that are held or have yet to be applied, paused, without an agent. The
counts include all objects at the location, of all spaces. Only root shows them: "orrery
status" shows the objects of a space.
` + exitCodes,
		Example: `  orrery top
  orrery top --watch
  orrery top --rows 0 -o json`,
		Args: want(0, 0, "none"),
		RunE: t.run,
	}
	t.connection.addFlags(cmd.Flags())
	t.output.addListFlag(cmd, locationEntries())
	cmd.Flags().StringVarP(&t.space, "space", "S", "", "space whose locations are shown (default root, or that of the kubeconfig without access to root)")
	cmd.Flags().BoolVarP(&t.watch, "watch", "w", false, "show it again every two seconds")
	cmd.Flags().IntVar(&t.rows, "rows", -1, "how many locations are shown, 0 for all (default what the screen has room for, or all if there is none)")
	return cmd
}

func (t *topCommand) run(cmd *cobra.Command, _ []string) error {
	if err := t.output.check(cmd); err != nil {
		return err
	}
	if t.watch && t.output.structured() {
		return badUsage(cmd, "--watch supports only -o table and wide")
	}
	h, err := t.connection.open(t.space)
	if err != nil {
		return err
	}
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		if err := t.show(cmd.Context(), h); err != nil || !t.watch {
			return err
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

// show reads the locations and prints them.
func (t *topCommand) show(ctx context.Context, h *hubClient) error {
	var list v1alpha1.LocationList
	space, err := h.space, error(nil)
	if t.space == "" { // an operator sees the counts, whichever space the kubeconfig is for
		space, err = key.Root, h.get(ctx, asJSON, &list, rootPath(key.Locations)...)
	}
	if t.space != "" || apierrors.IsForbidden(err) {
		space, err = h.space, h.get(ctx, asJSON, &list, spacePath(h.space, key.Locations)...)
	}
	if err != nil {
		if t.watch && ctx.Err() != nil {
			err = nil // the user ended it
		}
		return err
	}
	f := fleetOf(list.Items)
	if t.output.structured() {
		return t.output.data(t.streams.Out, f)
	}
	shown := f.Locations
	if t.rows > 0 && len(shown) > t.rows {
		shown = shown[:t.rows]
	}
	text, err := t.page(f, shown, space == key.Root)
	size, isScreen := screenOf(t.streams.Out)
	for t.rows < 0 && isScreen && err == nil && len(shown) > 1 {
		excess := size.lines(text) + topAround - size.height
		if excess <= 0 {
			break
		}
		shown = shown[:max(1, len(shown)-excess)]
		text, err = t.page(f, shown, space == key.Root)
	}
	if err != nil {
		return err
	}
	if t.watch && isScreen {
		text = "\x1b[H\x1b[2J" + text // clear the screen, and start at its top
	}
	_, err = io.WriteString(t.streams.Out, text)
	return err
}

// page returns the summary of the fleet and a table of some of its locations.
func (t *topCommand) page(f fleet, shown []fleetLocation, ofRoot bool) (string, error) {
	var page bytes.Buffer
	fmt.Fprintln(&page, f.head(ofRoot))
	table := locationsTable(shown, time.Now())
	if !ofRoot {
		withoutCounts(table)
	}
	if err := t.output.table(&page, t.streams.ErrOut, table, "locations; enrol one with: orrery location add NAME"); err != nil {
		return "", err
	}
	if n := len(f.Locations) - len(shown); n > 0 {
		fmt.Fprintf(&page, "and %d more\n", n)
	}
	return page.String(), nil
}

// screen is the size of a terminal in characters.
type screen struct{ width, height int }

// screenOf returns the size of a terminal, and whether the output is one.
func screenOf(out io.Writer) (screen, bool) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return screen{}, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return screen{width, height}, err == nil && width > 0 && height > 0
}

// lines returns the number of lines that a text takes on the screen, which continues long lines in the next
// one.
func (s screen) lines(text string) (n int) {
	for line := range strings.Lines(text) {
		length := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		n += max(1, (length+s.width-1)/s.width)
	}
	return n
}

// fleet is the state of all locations. Locations with a problem come first.
type fleet struct {
	Connected int             `json:"connected"`
	Wrong     int             `json:"wrong"`
	Total     v1alpha1.Counts `json:"total"`
	Locations []fleetLocation `json:"locations"`
}

// fleetLocation is a location and its worst problem.
type fleetLocation struct {
	Name string `json:"name"`
	// Wrong is a word for the problem; empty if there is none.
	Wrong   string          `json:"wrong,omitempty"`
	Message string          `json:"message,omitempty"`
	Since   *metav1.Time    `json:"since,omitempty"`
	Counts  v1alpha1.Counts `json:"counts"`
	Leaving int64           `json:"leaving,omitempty"`
	Version string          `json:"version,omitempty"`

	rank int
}

// locationEntries returns the functions that list and name the locations of a fleet.
func locationEntries() entries {
	return entries{
		find: func(result map[string]any) []any { return listIn(result, "locations") },
		name: func(entry any) string {
			location, _ := entry.(map[string]any)
			name, _ := location["name"].(string)
			return "location.orrery.dev/" + name
		},
	}
}

func fleetOf(all []v1alpha1.Location) fleet {
	f := fleet{Locations: []fleetLocation{}}
	for i := range all {
		l := worstOf(&all[i])
		f.Locations = append(f.Locations, l)
		if meta.IsStatusConditionTrue(all[i].Status.Conditions, v1alpha1.ConditionConnected) {
			f.Connected++
		}
		if l.Wrong != "" {
			f.Wrong++
		}
		f.Total.Add(l.Counts)
	}
	slices.SortStableFunc(f.Locations, func(a, b fleetLocation) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.Counts.Failed, a.Counts.Failed), strings.Compare(a.Name, b.Name))
	})
	return f
}

// worstOf returns a location with its worst problem. The order of the cases is the order in which
// locations are shown.
func worstOf(l *v1alpha1.Location) fleetLocation {
	c := l.Status.Counts
	f := fleetLocation{Name: l.Name, Counts: c, Leaving: l.Status.Leaving}
	if l.Status.Agent != nil {
		f.Version = l.Status.Agent.Version
	}
	condition := func(kind string) *metav1.Condition { return meta.FindStatusCondition(l.Status.Conditions, kind) }
	isFalse := func(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionFalse }
	enrolled, connected, compatible := condition(v1alpha1.ConditionEnrolled), condition(v1alpha1.ConditionConnected), condition(v1alpha1.ConditionCompatible)
	neverJoined := enrolled == nil && l.Status.Agent == nil
	available := condition(v1alpha1.ConditionClusterAvailable)
	fromCondition := func(c *metav1.Condition) { f.Message, f.Since = oneLine(c.Message), &c.LastTransitionTime }
	fromCounts := func(format string, args ...any) { f.Message = fmt.Sprintf(format, args...) }
	pending := c.Assigned - c.Applied - c.Failed - c.Held
	for rank, wrong := range []struct {
		is   bool
		what string
		say  func()
	}{
		{isFalse(connected) && !isFalse(enrolled) && !neverJoined, "Lost", func() { fromCondition(connected) }},
		{isFalse(available), "Unavailable", func() { fromCondition(available) }},
		{isFalse(compatible), "Incompatible", func() { fromCondition(compatible) }},
		{c.Failed > 0, "Failed", func() { fromCounts("%d of %d objects failed", c.Failed, c.Assigned) }},
		{c.Healthy < c.Applied, "Unhealthy", func() { fromCounts("%d of %d applied objects are not healthy", c.Applied-c.Healthy, c.Applied) }},
		{l.Spec.Mapping == v1alpha1.MappingPaused, "Paused", func() { fromCounts("its agent changes nothing") }},
		{c.Held > 0, "Held", func() { fromCounts("%d of %d objects are held", c.Held, c.Assigned) }},
		{pending > 0, "Pending", func() { fromCounts("%d of %d objects have yet to be applied", pending, c.Assigned) }},
		{isFalse(enrolled) || connected == nil || neverJoined, "NoAgent", func() { fromCounts("no agent is enrolled") }},
	} {
		if f.rank = rank; wrong.is {
			f.Wrong = wrong.what
			wrong.say()
			return f
		}
	}
	f.rank++
	return f
}

// head summarizes the fleet in a line, with the counts of objects if they are known.
func (f fleet) head(withCounts bool) string {
	noun := "locations"
	if len(f.Locations) == 1 {
		noun = "location"
	}
	text := fmt.Sprintf("%d %s: %d connected, %d with something wrong.", len(f.Locations), noun, f.Connected, f.Wrong)
	if !withCounts {
		return text
	}
	t := f.Total
	return text + fmt.Sprintf("  %d assigned, %d applied, %d healthy, %d failed, %d held, %d stale",
		t.Assigned, t.Applied, t.Healthy, t.Failed, t.Held, t.Stale)
}

func locationsTable(all []fleetLocation, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Location", "Wrong", "For", "Assigned", "Applied", "Healthy", "Failed", "Held", "Stale", "Leaving+", "Agent+", "Message")}
	for _, l := range all {
		since := ""
		if l.Since != nil {
			since = duration.HumanDuration(now.Sub(l.Since.Time))
		}
		c := l.Counts
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			l.Name, l.Wrong, since, c.Assigned, c.Applied, c.Healthy, c.Failed, c.Held, c.Stale, l.Leaving, l.Version, l.Message,
		}})
	}
	return t
}
