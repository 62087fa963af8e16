package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/route"
)

// errDiffers says that there is a difference, which has been printed.
var errDiffers = errors.New("there is a difference")

// diffError is why a difference could not be found: the exit code of other errors says that
// there is one.
type diffError struct{ error }

// Unwrap is for errors.Is and errors.As.
func (e diffError) Unwrap() error { return e.error }

// diffCommand is `orrery diff`.
type diffCommand struct {
	objectAtLocation
	all bool
}

func newDiff(streams genericiooptions.IOStreams) *cobra.Command {
	y := &diffCommand{objectAtLocation: objectAtLocation{connection: newConnection(true), streams: streams}}
	cmd := &cobra.Command{
		Use:   "diff KIND/NAME --location L",
		Short: "Compare what a location has of an object with what it should have",
		Long: `Compare what a location has of an object (-) with what the next apply there would make of
it (+). The location's agent is asked, also while it is paused: it reads the object, and
has its cluster apply what is desired as a dry run.

Only fields that Orrery owns are compared, unless --all is given. Values of Secrets are
never shown, only whether they differ. It takes the right to get the object and, in its
space, locations/live, which the roles edit and admin have; for Secrets, locations/livesecrets,
too, which admin has.

` + objectHelp + `.

Exit codes: 0 no difference, 1 a difference, 2 an error or wrong usage.`,
		Example: `  orrery diff deployment/web --location berlin
  orrery diff configmap/app -n shop --location berlin --all`,
		Args: want(1, 2, objectArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := y.run(cmd, args)
			if err != nil && !errors.Is(err, errDiffers) {
				err = diffError{err}
			}
			return err
		},
	}
	y.addFlags(cmd, "diff")
	cmd.Flags().BoolVar(&y.all, "all", false, "show the fields of others, too (not of Secrets)")
	return cmd
}

func (y *diffCommand) run(cmd *cobra.Command, args []string) error {
	h, query, err := y.open(cmd, args)
	if err != nil {
		return err
	}
	if y.all {
		query.Set("all", "true")
	}
	var found queries.Diff
	if err := h.ask(cmd.Context(), route.Diff, query, &found); err != nil {
		return err
	}
	return y.print(found)
}

// print prints the difference, and to the other stream what else there is to know.
func (y *diffCommand) print(found queries.Diff) error {
	live, err := asYAML(found.Live)
	if err != nil {
		return err
	}
	desired, err := asYAML(found.Desired)
	if err != nil {
		return err
	}
	if y.output.structured() {
		if err := y.output.data(y.streams.Out, found); err != nil {
			return err
		}
	} else {
		for _, note := range found.Notes {
			if _, err := fmt.Fprintln(y.streams.ErrOut, "note: "+note); err != nil {
				return err
			}
		}
		text := diff.Diff("LIVE/"+string(found.Location)+"/"+found.Object, live, "DESIRED/"+string(found.Location)+"/"+found.Object, desired)
		if _, err := y.streams.Out.Write(text); err != nil {
			return err
		}
	}
	if string(live) != string(desired) {
		return errDiffers
	}
	return nil
}

// asYAML is an object as it is compared; nothing, if there is none.
func asYAML(object json.RawMessage) ([]byte, error) {
	if len(object) == 0 {
		return nil, nil
	}
	text, err := yaml.JSONToYAML(object)
	if err != nil {
		return nil, fmt.Errorf("decode the hub's answer: %w", err)
	}
	return text, nil
}
