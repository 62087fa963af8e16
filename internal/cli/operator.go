package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// purgePoll is the interval at which the progress of a purge is read.
const purgePoll = 500 * time.Millisecond

// location reads one Location. Its Status.Agent is never nil.
func (h *hubClient) location(ctx context.Context, name string) (l v1alpha1.Location, err error) {
	err = h.get(ctx, asJSON, &l, rootPath(key.Locations, name)...)
	if l.Status.Agent == nil {
		l.Status.Agent = &v1alpha1.AgentStatus{}
	}
	return l, err
}

// annotate sets an annotation of a Location; a nil value removes it.
func (h *hubClient) annotate(ctx context.Context, name, annotation string, value any) error {
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}}
	return h.merge(ctx, patch, rootPath(key.Locations, name)...)
}

func newLocationAccept(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "accept NAME",
		Short: "Have a location's agent accept the hub's log as the continuation of the one it knew",
		Long: `Have a location's agent accept the hub's log as the continuation of the one it
knew. This is needed after the hub's data was restored from a copy, or the
location was removed and added again: until then the agent creates new objects,
but changes and removes none. After that, the location becomes what this hub
desires. Removals that follow are bounded by spec.prune.

The command waits until the agent has accepted the log. If the agent is not
connected, the command ends at once, and the agent accepts the log when it connects.
`,
		Example: `  orrery location describe berlin
  orrery location accept berlin`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			done, err := h.accept(cmd.Context(), timeout, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s: %s\n", name, done)
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the agent; it can accept the log after that, too")
	return cmd
}

// accept has a location's agent accept the log that it waits for, and returns a description of the result.
//
// The status may be from before a restart or restore of the hub. Then it can name a log that the agent
// does not wait for, and an acceptance of that log has no effect; so accept waits until the agent follows.
func (h *hubClient) accept(ctx context.Context, timeout time.Duration, name string) (done string, err error) {
	l, err := h.location(ctx, name)
	if err != nil {
		return "", err
	}
	accepted, changes := l.Status.Agent.Awaits, l.Status.Agent.Deferred
	if l.Status.Agent.LogIdentity != string(wire.Unproven) || accepted == "" {
		return "", fmt.Errorf("location %q has nothing to accept: as far as its agent has said, this hub's log is the one it knows", name)
	}
	if err := h.annotate(ctx, name, v1alpha1.AcceptAnnotation, accepted); err != nil {
		return "", err
	}
	err = waitFor(ctx, timeout, func(ctx context.Context) (bool, error) {
		l, err := h.location(ctx, name)
		if err != nil {
			return false, err
		}
		done, err = acceptance(&l, accepted, changes)
		return done != "", err
	})
	if err != nil {
		return "", fmt.Errorf("location %q: the acceptance of log %s is recorded, but its agent does not follow this hub's log: %w; see: orrery location describe %s", name, accepted, err, name)
	}
	return done, nil
}

// acceptance describes how a location's agent took the acceptance of a log; "": it has not answered yet.
// changes is the number of changes that waited for it.
func acceptance(l *v1alpha1.Location, log string, changes int64) (string, error) {
	a := l.Status.Agent
	switch {
	case a.LogIdentity == string(wire.Proven):
		return fmt.Sprintf("its agent has accepted this hub's log; %d changes that waited are applied", changes), nil
	case a.Awaits != "" && a.Awaits != log:
		return "", fmt.Errorf("it waits for the acceptance of log %s; accept again", a.Awaits)
	case !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConnected):
		return fmt.Sprintf("its agent is not connected; it accepts log %s when it connects, unless the hub has been restarted since it last was; see: orrery location describe %s", log, l.Name), nil
	case a.Halted != "":
		return fmt.Sprintf("its agent changes nothing at present (%s); it accepts log %s after that", a.Halted, log), nil
	}
	return "", nil
}

func newLocationConfirmPrune(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var digest string
	cmd := &cobra.Command{
		Use:   "confirm-prune NAME",
		Short: "Confirm removals that wait at a location because they are too many at once",
		Long: `Confirm removals that wait because they are more at once than the location's
spec.prune allows. Without --digest the command shows the removals that wait and
their digest. With it, exactly the removals that the digest names are confirmed,
and none if others wait by now.
`,
		Example: `  orrery location confirm-prune berlin
  orrery location confirm-prune berlin --digest 0f5c2a9be1d40c37`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			l, err := h.location(cmd.Context(), name)
			if err != nil {
				return err
			}
			p := l.Status.Agent.Prune
			if p == nil {
				return fmt.Errorf("location %q has no removals that wait, as far as its agent has said", name)
			}
			if digest == "" {
				if err := showPending(streams.Out, name, p); err != nil {
					return err
				}
				return errNo
			}
			n, ok := pendingOf(p, digest)
			if !ok {
				return fmt.Errorf("digest %q is not the digest of the pending removals; see: orrery location confirm-prune %s", digest, name)
			}
			if err := h.annotate(cmd.Context(), name, v1alpha1.ConfirmPruneAnnotation, digest); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s: %d removals confirmed, if no others wait by now\n", name, n)
			return err
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the removals to confirm, as the command shows without it")
	return cmd
}

// pendingOf returns the number of removals that a digest identifies: all, or those of one space.
func pendingOf(p *v1alpha1.PendingPrune, digest string) (int64, bool) {
	if p.Digest == digest {
		return p.Pending, true
	}
	for _, s := range p.Spaces {
		if s.Digest == digest {
			return s.Pending, true
		}
	}
	return 0, false
}

func showPending(out io.Writer, name string, p *v1alpha1.PendingPrune) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d removals wait at location %s:\n\n", p.Pending, name)
	for _, o := range p.Objects {
		fmt.Fprintf(&b, "  %s\n", o)
	}
	if more := p.Pending - int64(len(p.Objects)); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	fmt.Fprintf(&b, "\nTo let them go:\n\n  orrery location confirm-prune %s --digest %s\n", name, p.Digest)
	if len(p.Spaces) > 1 {
		b.WriteString("\nor only those of one space:\n\n")
		for _, s := range p.Spaces {
			fmt.Fprintf(&b, "  --digest %s  space %s, %d removals\n", s.Digest, s.Space, s.Pending)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func newLocationRemove(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var purge bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a location; its cluster keeps what it runs",
		Long: `Remove a location: its token, its reports and what is assigned to it. Nothing is
deleted at its cluster, unless --purge is given: then its agent first removes
everything that it made there, whatever spec.prune allows. Namespaces that it
created only for objects in them stay, and so does what others at the cluster use.
`,
		Example: `  orrery location remove berlin
  orrery location remove berlin --purge`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			done, hint := "its cluster keeps what it runs", ""
			if l, err := h.location(cmd.Context(), name); err == nil && !purge { // otherwise the deletion returns the error
				hint = fmt.Sprintf("to have that again: orrery location add %s --takes-over %s", name, key.OwnershipMark(key.Location(name), string(l.UID)))
				if n := l.Spec.Namespaces; n != "" {
					hint += " --namespaces " + string(n)
				}
				hint += "\n"
			}
			if purge {
				ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
				defer cancel()
				if done, err = h.purge(ctx, streams.ErrOut, name); err != nil {
					return err
				}
			}
			if err := h.delete(cmd.Context(), rootPath(key.Locations, name)...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "location %s removed; %s\n%s", name, done, hint)
			return err
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "first remove everything from its cluster that Orrery made there")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for the purge; it goes on after that")
	return cmd
}

// purge removes all objects from a location, and waits for the end. It writes the progress, and
// returns a description of the result.
func (h *hubClient) purge(ctx context.Context, progress io.Writer, name string) (string, error) {
	l, err := h.location(ctx, name)
	if err != nil {
		return "", err
	}
	if meta.IsStatusConditionFalse(l.Status.Conditions, v1alpha1.ConditionEnrolled) {
		return "", fmt.Errorf("no agent can remove the objects: the enrolment of location %q is revoked; "+
			"let its agent join again (orrery location token %s), or remove the location without --purge", name, name)
	}
	if !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionEnrolled) {
		return "no agent has ever joined, so there was nothing to remove", nil
	}
	if err := h.annotate(ctx, name, v1alpha1.PurgeAnnotation, "true"); err != nil {
		return "", err
	}
	poll := time.NewTicker(purgePoll)
	defer poll.Stop()
	for last := ""; ; {
		l, err := h.location(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			return "", fmt.Errorf("location %q was removed by another client", name)
		case err != nil && ctx.Err() == nil:
			return "", err
		}
		now, done := purgeProgress(&l)
		if done {
			return now, nil
		}
		if err == nil && now != last {
			_, _ = fmt.Fprintf(progress, "location %s: %s\n", name, now) // an error here does not matter
			last = now
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("location %q is not empty yet (%s); the purge goes on, and the same command waits for it again", name, cmp.Or(last, now))
		}
	}
}

// purgeProgress describes the progress of a purge.
func purgeProgress(l *v1alpha1.Location) (now string, done bool) {
	a := l.Status.Agent
	switch {
	case !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConnected):
		return "waiting for its agent, which is not connected", false
	case a.Halted != "":
		return "waiting: the agent changes nothing: " + a.Halted, false
	case a.LogIdentity == string(wire.Unproven):
		return "waiting: the agent does not know this hub's log; see: orrery location describe " + l.Name, false
	case a.Purge == nil:
		return "listing the objects to remove", false
	case a.Purge.Left > 0:
		return fmt.Sprintf("%d objects left", a.Purge.Left), false
	case a.Purge.Kept > 0:
		return fmt.Sprintf("its cluster keeps %d objects that others there use: %s", a.Purge.Kept, strings.Join(a.Purge.Objects, ", ")), true
	}
	return "everything that Orrery made at its cluster is gone", true
}
