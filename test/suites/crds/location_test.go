package crds

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// place places all that a space has of widgets at the one location.
const place = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: all}
spec:
  locations: [{names: [edge]}]
  downsync:
  - {apiGroup: shop.example}
  - {apiGroup: apiextensions.k8s.io, resources: [customresourcedefinitions], names: [widgets.shop.example]}
`

// TestAtALocation assigns a CRD and its objects to a location at once. The agent restores them when
// they are deleted in the cluster. They still belong to the first space when another space assigns a
// CRD of the same name; the states of that space report the conflict.
func TestAtALocation(t *testing.T) {
	h := hubOfAll{env.StartHub(t)}
	w := world.ForHub(t, h.Hub)
	edge := w.Join("edge", nil, env.APIOnly())
	// The removal guard must not stop the removal of all objects of a space.
	env.Kubectl(t, h.Kubeconfig, "patch", "location", "edge", "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	one, two := h.space(t, "one"), h.space(t, "two")
	atEdge := space{t: t, kubeconfig: edge.Cluster.Kubeconfig}
	reads := func(want string, args ...string) {
		t.Helper()
		reads(t, atEdge.kubeconfig, want, args...)
	}
	one.apply(crd("widgets", "Widget", widgetSpec, widgetMore))
	one.apply(widget("a", "{size: 1}"))
	one.apply(place)
	reads("a 1", "get", "widgets", "--no-headers", "-o", "custom-columns=:metadata.name,:spec.size")

	atEdge.kubectl("delete", "crd", "widgets.shop.example")
	reads("a 1", "get", "widgets", "--no-headers", "-o", "custom-columns=:metadata.name,:spec.size")

	two.apply(strings.NewReplacer("scope: Namespaced", "scope: Cluster", "kind: Widget", "kind: Gadget", "name: v1", "name: v1beta1").
		Replace(crd("widgets", "Widget", "{type: object, properties: {size: {type: string}}}", "")))
	two.apply("{apiVersion: shop.example/v1beta1, kind: Gadget, metadata: {name: g}, spec: {size: large}}")
	two.apply(place)
	h.hasStates(t, "two", map[string]string{
		"apiextensions.k8s.io/customresourcedefinitions/widgets.shop.example": "Conflict DefinedOtherwise",
		"shop.example/widgets/g": "Held DefinedOtherwise",
	})
	reads("a 1", "get", "widgets", "--no-headers", "-o", "custom-columns=:metadata.name,:spec.size")

	// The CRD of the second space has another scope, and the scope of a CRD is immutable.
	one.kubectl("delete", "placement", "all")
	h.hasStates(t, "two", map[string]string{
		"apiextensions.k8s.io/customresourcedefinitions/widgets.shop.example": "Failed Immutable",
		"shop.example/widgets/g": "Unsupported NoSuchVersion",
	})
	reads("", "get", "widgets", "--no-headers", "--ignore-not-found")
}

// hasStates waits until the objects of a space have the wanted states and reasons at the location.
func (h hubOfAll) hasStates(t *testing.T, space string, want map[string]string) {
	t.Helper()
	env.Eventually(t, 2*soon, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: h.Kubeconfig, Args: []string{"status", "--space", space, "-o", "json"}}.Try(t)
		if err != nil {
			return err
		}
		var s struct {
			Objects []struct {
				Object string
				Places []struct{ State, Reason string }
			}
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return err
		}
		got := map[string]string{}
		for _, o := range s.Objects {
			for _, p := range o.Places {
				got[o.Object] = p.State + " " + p.Reason
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("orrery status prints %s", out)
		}
		return nil
	})
}
