// Package cli implements the commands of the program orrery, which is also the kubectl plugin
// kubectl-orrery.
//
// It parses flags, sends requests to the hub through its public APIs, and prints the responses. It
// must not make decisions about workloads, read the hub's data, or end the process: Main returns an
// exit code.
package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"orrery.dev/orrery/internal/lib/process"
)

// Exit codes.
const (
	// ExitOK is the exit code of a command that succeeded.
	ExitOK = 0
	// ExitError is the exit code of a command that failed.
	ExitError = 1
	// ExitUsage is the exit code for wrong arguments or flags.
	ExitUsage = 2
	// ExitNo is the exit code for a negative result: `orrery why` about an object that is not
	// assigned to the location, or confirm-prune without --digest, which confirms nothing.
	ExitNo = 3
	// ExitDiffers is the exit code of `orrery diff` for a difference, and ExitDiffFailed that for
	// an error. They are the exit codes of kubectl diff.
	ExitDiffers    = 1
	ExitDiffFailed = 2
)

// Main runs the command line args, whose first element is the name of the program. It returns the
// exit code when the command is done or ctx ends.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	klog.SetLogger(logr.Discard())    // client libraries return the errors that they log
	root := newRoot(args[0], streams) //nolint:contextcheck // cobra passes the context to the commands
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errNo):
		return ExitNo
	case errors.Is(err, errDiffers):
		return ExitDiffers
	case errors.As(err, &usage):
		root.PrintErrf("error: %s\nsee '%s --help'\n", usage.problem, usage.command)
		return ExitUsage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		root.PrintErrln("error: interrupted")
		if errors.As(err, &diffError{}) {
			return ExitDiffFailed
		}
		return ExitError
	case errors.As(err, &diffError{}):
		root.PrintErrln("error:", describe(err))
		return ExitDiffFailed
	default:
		root.PrintErrln("error:", describe(err))
		return ExitError
	}
}

func newRoot(program string, streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "orrery",
		Short: "Map workloads from a center onto many clusters",
		Long: `Orrery maps workloads from a center onto many clusters. A workload is described
once, in a space; the hub decides at which locations it is desired; an agent at
each location keeps its cluster equal to that.
` + exitCodes,
		Version:       process.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl orrery"}
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return badUsage(cmd, "%v", err) })
	root.AddCommand(
		newHub(streams),
		newDemo(program, streams),
		newSpace(streams),
		newLocation(streams),
		newPlacement(streams),
		newToken(streams),
		newStatus(streams),
		newTop(streams),
		newTree(streams),
		newWhy(streams),
		newRender(streams),
		newDiff(streams),
		newCheck(streams),
		newVersion(streams),
	)
	group(root)
	addCompletions(root, "")
	return root
}
