package operator

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// many is how many objects are placed: more than may be removed at a location at once
// without a confirmation, which is free.
const many, free = 60, 50

// fleet is three locations and a space from which one Placement places the same
// objects at all of them.
type fleet struct {
	*world.World
	t     *testing.T
	file  string // kubeconfig of the space
	sites []*world.Site
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	w := world.New(t)
	f := &fleet{World: w, t: t, file: w.AddSpace(spaceName)}
	for _, name := range []string{"one", "two", "three"} {
		f.sites = append(f.sites, f.Join(name, env.StartLink(t, w.Hub.URL), env.APIOnly()))
	}
	f.furnish()
	f.place("web")
	f.count("all are there", many, many, many)
	return f
}

// furnish creates the objects in the space.
func (f *fleet) furnish() {
	f.t.Helper()
	var b strings.Builder
	b.WriteString("{apiVersion: v1, kind: Namespace, metadata: {name: goods}}\n")
	for i := range many {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: o%d, namespace: goods, labels: {what: web}}}\n", i)
	}
	env.KubectlIn(f.t, f.file, b.String(), "apply", "--server-side", "-f", "-")
}

// place has the Placement select by a label.
func (f *fleet) place(what string) {
	f.t.Helper()
	env.KubectlIn(f.t, f.file, fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: web}
spec:
  locations: [{selector: {}}]
  downsync: [{labelSelectors: [{matchLabels: {what: %s}}]}]
`, what), "apply", "--server-side", "-f", "-")
}

// have returns an error unless the sites have so many of the objects.
func (f *fleet) have(want ...int) func() error {
	return func() error {
		for i, site := range f.sites {
			l, err := site.Client.Resource(world.ConfigMaps).List(f.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LocationLabel})
			if err != nil {
				return err
			}
			if len(l.Items) != want[i] {
				return fmt.Errorf("location %s has %d objects, want %d", site.Name, len(l.Items), want[i])
			}
		}
		return nil
	}
}

func (f *fleet) count(what string, want ...int) {
	f.t.Helper()
	f.Eventually(what, f.have(want...))
}

// waiting waits until `orrery status` reports a number of pending removals at a number of locations,
// and returns the command that confirms them.
func (f *fleet) waiting(removals, locations int) []string {
	f.t.Helper()
	pattern := regexp.MustCompile(fmt.Sprintf(
		`Placement web: %d removals wait at %d locations.*run: orrery (placement confirm-prune web --digest [0-9a-f]+)\n`, removals, locations))
	var found []string
	f.Eventually(fmt.Sprintf("%d removals wait", removals), func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: f.file, Args: []string{"status"}}.Try(f.t)
		if err != nil {
			return err
		}
		if found = pattern.FindStringSubmatch(out); found == nil {
			return errors.New(out)
		}
		return nil
	})
	return strings.Fields(found[1])
}

// isSynced waits until all objects of the Placement are applied and no removals are pending.
func (f *fleet) isSynced() {
	f.t.Helper()
	f.hasSynced("Applied")
}

// selectsNothing waits until the Placement is not Synced since it selects no object, and no removals
// are pending.
func (f *fleet) selectsNothing() {
	f.t.Helper()
	f.hasSynced("NoObjects")
}

// hasSynced waits until the condition Synced has a reason and no removals are pending.
func (f *fleet) hasSynced(reason string) {
	f.t.Helper()
	env.Kubectl(f.t, f.file, "wait", `--for=jsonpath={.status.conditions[?(@.type=="Synced")].reason}=`+reason, "placement/web", "--timeout="+world.Soon.String())
	f.Eventually("no removal is pending", func() error {
		out, err := env.TryKubectl(f.t, f.file, "get", "placement", "web", "-o", "jsonpath={.status.prune}{.status.confirmed}")
		if err != nil {
			return err
		}
		if out != "" {
			return fmt.Errorf("the status of the Placement still has %s", out)
		}
		return nil
	})
}

// TestPlacements shows which objects of a Placement are removed at once because a user
// deleted them, which wait, and that one confirmation is enough for all locations.
func TestPlacements(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, step := range []struct {
		name string
		run  func(*fleet)
	}{
		{"a Placement is deleted", placementDeleted},
		{"a Placement is edited", placementEdited},
		{"a space is deleted and made again", spaceMadeAgain},
	} {
		if !t.Run(step.name, func(t *testing.T) { f.t, f.T = t, t; step.run(f) }) {
			return
		}
	}
}

func placementDeleted(f *fleet) {
	env.Kubectl(f.t, f.file, "delete", "placement", "web")
	f.count("all go without waiting", 0, 0, 0)
	f.place("web")
	f.count("all are there again", many, many, many)
	f.isSynced()
}

func placementEdited(f *fleet) {
	t := f.t
	f.place("nothing")
	const left = many - free
	f.count("some go", left, left, left)
	command := f.waiting(3*left, 3)
	out, err := env.Command{Binary: "orrery", Kubeconfig: f.file, Args: command[:3]}.Try(t)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(out, strings.Join(command, " ")) {
		t.Errorf("without a digest: %v: %s", err, out)
	}
	env.OrreryFails(t, f.file, "placement", "confirm-prune", "web", "--digest", "0123456789abcdef")
	env.Throughout(t, observation, f.have(left, left, left))

	f.sites[2].Link.Cut()
	env.Orrery(t, f.file, command...)
	f.count("those that are connected let go", 0, 0, left)
	f.Hub.Restart()
	f.Eventually("the rest is confirmed", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: f.file, Args: []string{"status"}}.Try(t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, fmt.Sprintf("%d removals at 1 locations are confirmed", left)) {
			return errors.New(out)
		}
		return nil
	})
	f.sites[2].Link.Heal()
	f.count("the one that was away lets go", 0, 0, 0)
	f.selectsNothing()
}

func spaceMadeAgain(f *fleet) {
	t := f.t
	f.place("web")
	f.count("all are there", many, many, many)
	f.isSynced()
	f.sites[0].Link.Cut()
	env.Orrery(t, f.Root, "space", "delete", spaceName)
	env.CreateSpace(t, f.Root, spaceName)
	f.sites[0].Link.Heal()
	f.place("nothing")
	command := f.waiting(3*many, 3)
	env.Throughout(t, observation, f.have(many, many, many))
	env.Orrery(t, f.file, command...)
	f.count("confirmed ones go", 0, 0, 0)
	f.selectsNothing()
}
