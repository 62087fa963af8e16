package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/route"
)

// whyCommand is `orrery why`.
type whyCommand struct {
	objectAtLocation
}

func newWhy(streams genericiooptions.IOStreams) *cobra.Command {
	y := &whyCommand{objectAtLocation{connection: newConnection(true), streams: streams}}
	cmd := &cobra.Command{
		Use:   "why KIND/NAME --location L",
		Short: "Explain why an object is, or is not, at a location",
		Long: `Explain why an object of a space is, or is not, at a location: which Placement and
which of its tests matched, or which came nearest and the first test that did not
match, which Customizers apply to it, what each of their rules changes, from what to
what, which of them fails, how its status comes back, and what the location last
reported.

` + objectHelp + `.
` + exitCodes,
		Example: `  orrery why deployment/web --location berlin
  orrery why ns/store --location berlin --space shop || echo "not assigned"`,
		Args: want(1, 2, objectArgs),
		RunE: y.run,
	}
	y.addFlags(cmd, "text")
	return cmd
}

func (y *whyCommand) run(cmd *cobra.Command, args []string) error {
	h, query, err := y.open(cmd, args)
	if err != nil {
		return err
	}
	var why queries.Why
	if err := h.query(cmd.Context(), route.Why, query, &why); err != nil {
		return err
	}
	if y.output.structured() {
		err = y.output.data(y.streams.Out, why)
	} else {
		err = describeWhy(y.streams.Out, why, time.Now())
	}
	switch {
	case err == nil && why.NotFound != "":
		return errors.New(why.NotFound)
	case err == nil && !why.Decision.Placed:
		return errNo
	}
	return err
}

// describeWhy prints the decision, and the state of the object at the location.
func describeWhy(w io.Writer, why queries.Why, now time.Time) error {
	text := why.Decision.String()
	for _, e := range why.Rules {
		text += describeEffect(e)
	}
	if _, err := fmt.Fprint(w, text); err != nil {
		return err
	}
	p := why.Place
	if p == nil {
		return nil
	}
	text = "reported by " + string(p.Location) + ": " + p.State
	if p.Unassigned {
		text = "it is still at " + string(p.Location) + ": " + p.State
		if why := causeOf(p); why != "" {
			text += ", " + why
		}
	}
	if p.State == string(objectstate.Pending) {
		text = string(p.Location) + " has not reported it as it is now"
	}
	if since := age(p.Since, now); since != "" {
		text += ", for " + since
	}
	for _, detail := range []string{p.Reason, p.Message} {
		if detail != "" {
			text += ": " + detail
		}
	}
	if p.Health != "" {
		text += "; it is " + string(p.Health)
	}
	if p.HealthNote != "" {
		text += ": " + p.HealthNote
	}
	if p.Stale {
		text += " (stale: the location can't be seen now)"
	}
	if p.StatusLeftOut != "" {
		text += "\nits status is not returned: " + p.StatusLeftOut
	}
	for i := range why.Waiting {
		placement := string(why.Waiting[i].Placement)
		text += "\n" + cmp.Or(placement, "no Placement") + ": " + prune.Explain(&why.Waiting[i].WaitingPrune, confirmer(why.Waiting[i]))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// shownValue is the maximum number of characters of a value in text output.
const shownValue = 120

// describeEffect describes the effect of one rule on the object.
func describeEffect(e rules.Effect) string {
	var text strings.Builder
	fmt.Fprintf(&text, "  rules[%d] of Customizer %s, %s\n", e.Rule, e.Customizer, e.Path)
	for _, c := range e.Changes {
		switch {
		case string(c.Before) == string(c.After):
			fmt.Fprintf(&text, "    %s: is %s already\n", c.Path, shorten(c.After))
		default:
			fmt.Fprintf(&text, "    %s: %s -> %s\n", c.Path, shorten(c.Before), shorten(c.After))
		}
	}
	if e.Omitted > 0 {
		fmt.Fprintf(&text, "    and %d more\n", e.Omitted)
	}
	switch {
	case e.Error != "":
		text.WriteString("    it fails: " + e.Error + "\n")
	case len(e.Changes) == 0 && e.Omitted == 0:
		text.WriteString("    changes nothing: there is nothing at its path\n")
	}
	return text.String()
}

func shorten(value []byte) string {
	text := cmp.Or(string(value), "(nothing)")
	if runes := []rune(text); len(runes) > shownValue {
		text = string(runes[:shownValue]) + "..."
	}
	return text
}
