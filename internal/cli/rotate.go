package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/wire"
)

// nextStep says what follows each state of a rotation.
var nextStep = map[enroll.Rotation]string{
	enroll.Settled: "one certificate authority is trusted, and signs",
	enroll.Announced: `the next certificate authority is trusted, too; the present one still signs
When all agents trust it, and all kubeconfigs were made anew: orrery hub rotate-ca switch`,
	enroll.Switched: `the new certificate authority signs; the one before is still trusted
When nobody uses what that has signed any more: orrery hub rotate-ca finish`,
}

func newHubRotateCA() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "rotate-ca [start|switch|finish|undo]",
		Short: "Replace the hub's certificate authority, one step at a time",
		Long: `Replace the hub's certificate authority, one step at a time, while the hub runs or
not. Without a step it shows how far that is.

  start   makes the next authority; agents, kubeconfigs and join tokens are told
          to trust both
  switch  has the next one sign, certificates of the server included
  finish  ends the trust in the one before, and what goes on by it
  undo    takes back start, or switch

A hub that runs takes over each step within seconds; sessions and watches go on.
` + exitCodes,
		Example: `  orrery hub rotate-ca start --data-dir /var/lib/orrery
  kubectl get locations -o custom-columns=NAME:.metadata.name,TRUSTS:.status.agent.trusts
  orrery hub rotate-ca switch --data-dir /var/lib/orrery
  orrery hub rotate-ca finish --data-dir /var/lib/orrery`,
		Args: want(0, 1, "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return badUsage(cmd, "no --data-dir given")
			}
			is, err := enroll.RotationOf(dir)
			if err == nil && len(args) > 0 {
				is, err = rotate(cmd, dir, enroll.Step(args[0]))
			}
			if err != nil {
				return err
			}
			certs, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
			if err != nil {
				return fmt.Errorf("read the certificate authority: %w", err)
			}
			cmd.Printf("%s: %s\ntrusted, the one that signs first: %s\n", is, nextStep[is], strings.Join(wire.Fingerprints(certs), ", "))
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of the hub")
	return cmd
}

func rotate(cmd *cobra.Command, dir string, step enroll.Step) (enroll.Rotation, error) {
	switch step {
	case enroll.Announce, enroll.Switch, enroll.Finish, enroll.Undo:
	default:
		return "", badUsage(cmd, "step %q: want start, switch, finish or undo", step)
	}
	is, err := enroll.Rotate(dir, step, time.Now())
	if err != nil {
		return "", fmt.Errorf("rotate the certificate authority: %w", err)
	}
	return is, nil
}
