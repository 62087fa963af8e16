package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestDirectAssignment places an object by its own annotation; and the same ones of two
// spaces at one cluster, where they are kept apart.
func TestDirectAssignment(t *testing.T) {
	t.Parallel()
	w := newShop(t, "north")
	north := w.Sites["north"]
	w.kubectl("create", "configmap", "direct", "--from-literal=a=b")
	w.kubectl("annotate", "configmap", "direct", `orrery.dev/assigned-locations=["north","nowhere"]`)
	w.expectField(north, world.ConfigMaps, "default", "direct", "map[a:b]", "data")
	w.Invariants()
	w.Eventually("the table of the space says so", func() error {
		out, err := env.TryKubectl(w.t, w.space, "get", "configmap", "direct", "--no-headers")
		if err != nil {
			return err
		}
		row := strings.Fields(out)
		if counts := strings.Join(row[len(row)-3:], " "); counts != "1 1 0" {
			return fmt.Errorf("placed, applied and failed are %s", counts)
		}
		return nil
	})
	w.Eventually("what it names and is not there is shown", func() error {
		status, err := env.Command{Binary: "orrery", Args: []string{"status", "configmap/direct"}, Kubeconfig: w.space}.Try(t)
		if !regexp.MustCompile(`nowhere\s+Failed\s.*no location with this name accepts objects of this space`).MatchString(status) {
			return errors.Join(fmt.Errorf("orrery status printed:\n%s", status), err)
		}
		return nil
	})
	why := env.Orrery(t, w.space, "why", "configmap/direct", "--location", "north")
	if !strings.Contains(why, "orrery.dev/assigned-locations") {
		t.Errorf("orrery why printed:\n%s", why)
	}
	w.kubectl("annotate", "configmap", "direct", "orrery.dev/assigned-locations-")
	w.Eventually("it leaves", func() error { return isGone(north.Get(t, world.ConfigMaps, "default", "direct")) })
	w.Invariants()
	w.prefixed(north)
}
