// Command orrery-agent keeps a cluster in the state that an Orrery hub desires for its location.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"orrery.dev/orrery/internal/agent/cli"
	"orrery.dev/orrery/internal/lib/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New(process.Version()).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "orrery-agent:", err)
		os.Exit(1)
	}
}
