package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

func newLocationDescribe(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show the state of a location",
		Args:  want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			space := key.Root
			var object map[string]any
			err = h.get(cmd.Context(), asJSON, &object, rootPath(key.Locations, name)...)
			if apierrors.IsForbidden(err) { // as the space of the kubeconfig shows it
				space = h.space
				err = h.get(cmd.Context(), asJSON, &object, spacePath(space, key.Locations, name)...)
			}
			if err != nil {
				return err
			}
			if o.structured() {
				return o.data(streams.Out, object)
			}
			var l v1alpha1.Location
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &l); err != nil {
				return fmt.Errorf("decode the hub's answer: %w", err)
			}
			return describeLocation(streams.Out, &l, space == key.Root, time.Now())
		},
	}
	o.addFlag(cmd, "text", formatJSON, formatYAML)
	return cmd
}

// describeLocation prints a location, with the counts of objects if they are known.
func describeLocation(out io.Writer, l *v1alpha1.Location, withCounts bool, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush returns the error
	line := func(name string, value any) { printf("%s:\t%v\n", name, value) }
	line("Name", l.Name)
	line("Labels", formatLabels(l.Labels))
	line("Properties", formatProperties(l.Spec.Properties))
	line("Taints", formatTaints(l.Spec.Taints))
	if l.Spec.Namespaces == v1alpha1.NamespacesPrefixed {
		line("Namespaces", "Prefixed: those of space S are S--NAME at the cluster")
	}
	line("Mark", key.OwnershipMark(key.Location(l.Name), string(l.UID)))
	if len(l.Spec.TakesOver) > 0 {
		line("Takes over", strings.Join(l.Spec.TakesOver, ", "))
	}
	line("Age", duration.HumanDuration(now.Sub(l.CreationTimestamp.Time)))
	line("Mapping", cmp.Or(l.Spec.Mapping, v1alpha1.MappingActive))
	if why := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionEnrolled); why != nil && why.Status == metav1.ConditionFalse {
		line("Agent", "not let in: "+why.Message)
	} else if a := l.Status.Agent; a != nil && why != nil {
		line("Agent", a.Version)
		for _, one := range a.Shards {
			state := map[bool]string{true: "connected", false: "not connected"}[one.Connected]
			line("Shard "+one.Shard, strings.TrimSuffix(state+", "+one.Version, ", "))
			if one.Halted != "" {
				line("  halted", one.Halted)
			}
		}
		line("Kubernetes", a.KubernetesVersion)
		line("Hub", fmt.Sprintf("%s, trusting %s", cmp.Or(a.Hub, "-"), strings.Join(a.Trusts, ", ")))
		line("Credential", map[bool]string{true: "signed by " + a.SignedBy, false: "without a certificate"}[a.SignedBy != ""])
		line("Store", map[bool]string{true: "encrypted", false: "not encrypted"}[a.StoreEncrypted])
		line("APIs", cmp.Or(a.APIsDigest, "not known yet"))
		if a.Deferred > 0 {
			line("Deferred", a.Deferred)
		}
		if a.Prune != nil {
			line("Guarded", fmt.Sprintf("%d removals, digest %s", a.Prune.Pending, a.Prune.Digest))
		}
	} else {
		line("Agent", "none has joined yet")
	}
	if withCounts {
		line("Assigned", l.Status.Assigned)
		line("Applied", l.Status.Applied)
		line("Healthy", l.Status.Healthy)
		line("Mutated", l.Status.Mutated)
		line("Failed", l.Status.Failed)
		line("Held", l.Status.Held)
		line("Stale", l.Status.Stale)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(l.Status.Conditions) == 0 {
		_, err := fmt.Fprintln(out, "Conditions: none")
		return err
	}
	printf("Conditions:\n  TYPE\tSTATUS\tSINCE\tREASON\tMESSAGE\n")
	for _, c := range l.Status.Conditions {
		printf("  %s\t%s\t%s\t%s\t%s\n", c.Type, c.Status, since(c.LastTransitionTime, now), c.Reason, c.Message)
	}
	return w.Flush()
}

func since(t metav1.Time, now time.Time) string { return duration.HumanDuration(now.Sub(t.Time)) }

func formatLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return "none"
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, ",")
}
