package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/wire"
)

// nextStep describes each state of a rotation, and the next step.
var nextStep = map[enroll.Rotation]string{
	enroll.Stable: "one certificate authority is trusted, and signs",
	enroll.Announced: `the next certificate authority is trusted, too; the present one still signs
When all agents trust it, and all kubeconfigs were made anew: orrery hub rotate-ca switch`,
	enroll.Switched: `the new certificate authority signs; the one before is still trusted
When no certificate of the previous authority is in use: orrery hub rotate-ca finish`,
}

func newHubRotateCA() *cobra.Command {
	var r rotation
	cmd := &cobra.Command{
		Use:   "rotate-ca [start|switch|finish|undo]",
		Short: "Replace the hub's certificate authority, one step at a time",
		Long: `Replace the hub's certificate authority, one step at a time, while the hub runs.
Without a step, show the state of the rotation, and the agents that the next step
waits for.

  start   creates the next authority; agents, kubeconfigs and join tokens get both
          authorities as trusted
  switch  signs with the next authority, certificates of the server included; agents
          renew theirs within a minute or two
  finish  removes the previous authority; its certificates are no longer accepted
  undo    undoes start or switch

A running hub applies each step within seconds, and the command waits for that;
sessions and watches continue. A step is refused while it would lock out an agent, or
if the hub does not respond and the agents are unknown. --wait waits for these agents,
--force takes the step regardless.
` + exitCodes,
		Example: `  orrery hub rotate-ca start --data-dir /var/lib/orrery
  orrery hub rotate-ca --data-dir /var/lib/orrery
  orrery hub rotate-ca switch --data-dir /var/lib/orrery --wait 10m
  orrery hub rotate-ca finish --data-dir /var/lib/orrery --wait 10m`,
		Args: want(0, 1, "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.dir == "" {
				return badUsage(cmd, "no --data-dir given")
			}
			if len(args) == 0 {
				return r.show(cmd)
			}
			return r.take(cmd, enroll.Step(args[0]))
		},
	}
	cmd.Flags().StringVar(&r.dir, "data-dir", "", "data directory of the hub")
	cmd.Flags().StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig by which the hub is asked for its agents (default admin.kubeconfig in the data directory)")
	cmd.Flags().DurationVar(&r.wait, "wait", 0, "for how long to wait for agents that the step would lock out")
	cmd.Flags().BoolVar(&r.force, "force", false, "take the step even if it locks out agents, or if the hub does not respond")
	return cmd
}

// rotation rotates the certificate authority in a data directory.
type rotation struct {
	dir, kubeconfig string
	force           bool
	// wait is how long to wait for agents that a step would lock out.
	wait time.Duration
}

// trusted returns the trusted authorities; the first one signs.
func (r rotation) trusted() ([]string, error) {
	certs, err := os.ReadFile(filepath.Join(r.dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	return wire.Fingerprints(certs), nil
}

// take takes a step if it locks out no agent.
func (r rotation) take(cmd *cobra.Command, step enroll.Step) error {
	switch step {
	case enroll.Announce, enroll.Switch, enroll.Finish, enroll.Undo:
	default:
		return badUsage(cmd, "step %q: want start, switch, finish or undo", step)
	}
	is, err := enroll.RotationOf(r.dir)
	if err != nil {
		return err
	}
	if needs, ok := r.needs(is, step); ok && !r.force {
		lost, err := r.await(cmd.Context(), needs)
		if err != nil {
			return fmt.Errorf("list the agents that the step would lock out (--force skips this check): %w", err)
		}
		if len(lost) > 0 {
			return fmt.Errorf("the step would lock out agents (--force takes it regardless):\n%s", strings.Join(lost, "\n"))
		}
	}
	if is, err = enroll.Rotate(r.dir, step, time.Now()); err != nil {
		return fmt.Errorf("rotate the certificate authority: %w", err)
	}
	if awaitReload(cmd.Context(), r.dir) {
		cmd.PrintErrf("the hub has not taken over the step within %s; check whether it uses this data directory, and its log\n", followTimeout)
	}
	return r.print(cmd, is)
}

func (r rotation) print(cmd *cobra.Command, is enroll.Rotation) error {
	trusted, err := r.trusted()
	if err == nil {
		cmd.Printf("%s: %s\ntrusted, the one that signs first: %s\n", is, nextStep[is], strings.Join(trusted, ", "))
	}
	return err
}

// show prints the state of the rotation, and the agents that the next step waits for.
func (r rotation) show(cmd *cobra.Command) error {
	is, err := enroll.RotationOf(r.dir)
	if err != nil {
		return err
	}
	if err := r.print(cmd, is); err != nil {
		return err
	}
	next := map[enroll.Rotation]enroll.Step{enroll.Announced: enroll.Switch, enroll.Switched: enroll.Finish}[is]
	needs, ok := r.needs(is, next)
	if !ok {
		return nil
	}
	lost, err := r.lost(cmd.Context(), needs)
	switch {
	case err != nil:
		cmd.Printf("the agents that the next step waits for are unknown: %v\n", err)
	case len(lost) == 0:
		cmd.Printf("all agents are ready for the next step\n")
	default:
		cmd.Printf("the next step waits for:\n%s\n", strings.Join(lost, "\n"))
	}
	return nil
}
