package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/world"
)

// shop is a world with the space shop.
type shop struct {
	*world.World
	t     *testing.T
	space string // kubeconfig of the space
}

const spaceName = "shop"

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

// newShop starts a hub with the space shop, and a real cluster with an agent
// for each location, labelled site=NAME.
func newShop(t *testing.T, locations ...string) *shop {
	t.Helper()
	w := shopAt(t, env.StartHub(t))
	w.AddSpace(spaceName)
	for _, name := range locations {
		w.Join(name, nil)
	}
	return w
}

// shopAt is the space shop of a hub, which need not be there yet.
func shopAt(t *testing.T, hub *env.Hub) *shop {
	t.Helper()
	return &shop{World: world.ForHub(t, hub), t: t, space: hub.PathKubeconfig("spaces/" + spaceName)}
}

// bearer is what an agent is known by that has joined.
func (w *shop) bearer(location string) string {
	w.t.Helper()
	join, err := wire.ParseJoin(w.Token(location))
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := protocol.Enrol(w.t.Context(), join)
	if err != nil {
		w.t.Fatal(err)
	}
	bearer, err := id.Bearer()
	if err != nil {
		w.t.Fatal(err)
	}
	return bearer
}

// kubectl runs kubectl in the space.
func (w *shop) kubectl(args ...string) string {
	w.t.Helper()
	return env.Kubectl(w.t, w.space, args...)
}

// apply applies YAML in the space, server-side.
func (w *shop) apply(yaml string) {
	w.t.Helper()
	env.KubectlIn(w.t, w.space, yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// expectField waits until a field of an object at a site has a value.
func (w *shop) expectField(s *world.Site, gvr schema.GroupVersionResource, namespace, name, want string, path ...string) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("%s: %s %s/%s has %s=%q", s.Name, gvr.Resource, namespace, name, strings.Join(path, "."), want), func() error {
		u, err := s.Get(w.t, gvr, namespace, name)
		if err != nil {
			return err
		}
		got, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
		if err != nil || !found || fmt.Sprint(got) != want {
			return fmt.Errorf("%s is %v, want %s", strings.Join(path, "."), got, want)
		}
		return nil
	})
}
