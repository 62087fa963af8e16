package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/agent"
)

func newStatus(dataDir *string) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "status", Short: "Show the status of the agent on a data directory", Args: cobra.NoArgs,
		Example: `  orrery-agent status
  orrery-agent status --data-dir /var/lib/orrery-agent -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := agent.ReadStatus(*dataDir)
			if err != nil {
				return err
			}
			s.Running = s.Running && alive(s.PID)
			switch output {
			case "text":
				return printStatus(c.OutOrStdout(), s)
			case "json":
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(s)
			default:
				return fmt.Errorf("--output %q: want text or json", output)
			}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// alive reports whether a process exists. A killed agent leaves a status file in which it is
// still running.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func printStatus(out io.Writer, s agent.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, name+":\t"+format+"\n", args...) // Flush returns the error
	}
	row("Location", "%s (%s)", s.Location, orDash(s.LocationUID))
	if s.Shard != "" && s.Shard != "1/1" {
		row("Shard", "%s", s.Shard)
	}
	row("Target", "%s", s.Target)
	row("Agent", "%s, %s, as of %s", running(s), orDash(s.Version), s.Updated.Format(time.RFC3339))
	row("Hub", "%s, %s since %s", s.Hub, connected(s), s.Since.Format(time.RFC3339))
	if !s.CredentialEnds.IsZero() {
		sealed := "not encrypted"
		if s.StoreEncrypted {
			sealed = "encrypted"
		}
		row("Credential", "until %s, %s", s.CredentialEnds.Format(time.RFC3339), sealed)
	}
	if s.LastError != "" {
		row("Last error", "%s", s.LastError)
	}
	if s.Halt != "" {
		row("Halted", "%s", s.Halt)
	}
	if s.Awaits != "" {
		row("Lineage", "not proven; accept the hub's log with: orrery location accept %s", s.Location)
	}
	if s.Guarded > 0 {
		row("Guarded", "%d removals wait for: orrery location confirm-prune %s --digest %s", s.Guarded, s.Location, s.PruneDigest)
	}
	row("Revision", "%d", s.Revision)
	row("Objects", "%d desired, %d queued, %d deferred", s.Desired, s.Queued, s.Deferred)
	if s.Unsent > 0 {
		row("Reports", "%d not sent yet", s.Unsent)
	}
	switch {
	case s.StoreError != "":
		row("Store", "cannot be written: %s", s.StoreError)
	case s.StoreEncrypted:
		row("Store", "encrypted")
	default:
		row("Store", "not encrypted: its volume has what the cluster is to have, Secrets included, and the agent's credential; see --store-key-file")
	}
	for _, state := range slices.Sorted(maps.Keys(s.States)) {
		row("  "+string(state), "%d", s.States[state])
	}
	for _, l := range s.Leftovers {
		row("Stays", "%s: %s: %s", l.Object, l.Reason, l.Message)
	}
	return w.Flush()
}

func running(s agent.Status) string {
	if s.Running {
		return fmt.Sprintf("running (pid %d)", s.PID)
	}
	return "not running"
}

func connected(s agent.Status) string {
	switch {
	case !s.Running || !s.Connected:
		return "not connected"
	case !s.Proven:
		return "connected, but its log does not continue the one before,"
	default:
		return "connected"
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
