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

// errDiffers is returned when there is a difference, which has been printed.
var errDiffers = errors.New("there is a difference")

// diffError is returned when the comparison failed. The exit code of other errors would mean a
// difference.
type diffError struct{ error }

// Unwrap implements errors.Unwrap.
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
		Short: "Compare an object at a location with its desired state",
		Long: `Compare the object at a location (-) with the result of the next apply there (+). The
location's agent reads the object, and applies the desired object as a dry run. It does so
even while the location is paused.

Only fields that Orrery owns are compared, unless --all is given. Values of Secrets are
never shown, only whether they differ. You need the right to get the object, and the right
to get locations/live in its space, which the roles edit and admin have. For Secrets you
also need locations/livesecrets, which admin has.

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
	cmd.Flags().BoolVar(&y.all, "all", false, "also show fields of other owners (except in Secrets)")
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
	if err := h.query(cmd.Context(), route.Diff, query, &found); err != nil {
		return err
	}
	return y.print(found)
}

// print prints the difference, and all other information to the error stream.
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
		for _, remark := range found.Remarks {
			if _, err := fmt.Fprintln(y.streams.ErrOut, "note: "+remark); err != nil {
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

// asYAML returns an object in the format that is compared; empty if there is none.
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
