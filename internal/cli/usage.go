package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

const exitCodes = `
Exit codes: 0 done, 1 an error, 2 wrong usage, 3 the answer is no (orrery why, check with a problem,
confirm-prune without --digest).
Of orrery diff: 0 no difference, 1 a difference, 2 an error.`

// group makes a command that only has subcommands report wrong usage if it is called without a
// subcommand, or with an unknown one.
func group(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !cmd.HasParent() {
			return cmd.Help()
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				names = append(names, sub.Name())
			}
		}
		if len(args) == 0 {
			return badUsage(cmd, "want a command: %s", strings.Join(names, ", "))
		}
		return badUsage(cmd, "unknown command %q: want one of %s", args[0], strings.Join(names, ", "))
	}
}

// want checks the number of arguments; what describes them in the error message.
func want(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return badUsage(cmd, "got %d arguments, want %s", len(args), what)
		}
		return nil
	}
}
