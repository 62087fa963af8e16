package crds

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// TestDefinitionsMeet has two spaces place a definition of one resource at one cluster. The
// first one's stays as it is. Of the other's objects those are there that are right by it, and
// none that would be cut, or refused, is ever sent. When the first one leaves, all are.
func TestDefinitionsMeet(t *testing.T) {
	h := hubOfAll{env.StartHub(t)}
	edge := world.ForHub(t, h.Hub).Join("edge", nil, env.APIOnly())
	env.Kubectl(t, h.Kubeconfig, "patch", "location", "edge", "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	one, two := h.space(t, "one"), h.space(t, "two")
	const id = "apiextensions.k8s.io/customresourcedefinitions/widgets.shop.example"
	one.apply(crd("widgets", "Widget", "{type: object, required: [size], properties: {size: {type: integer}, colour: {type: string, default: red}}}", ""))
	one.apply(place)
	h.hasStates(t, "one", map[string]string{id: "Applied "})

	two.apply(crd("widgets", "Widget", "{type: object, properties: {size: {type: integer}, weight: {type: integer}}}", ""))
	for name, spec := range seeds.Ordered(map[string]string{"fits": "{size: 1}", "more": "{size: 1, weight: 2}", "less": "{}"}) {
		two.apply(widget(name, spec))
	}
	two.apply(place)
	hasStates := func(crd, fits, more, less string) {
		t.Helper()
		h.hasStates(t, "two", map[string]string{id: crd, "shop.example/widgets/default/fits": fits, "shop.example/widgets/default/more": more, "shop.example/widgets/default/less": less})
	}
	hasStates("Conflict OtherSpace", "Applied ", "Held DefinedOtherwise", "Held DefinedOtherwise")
	reads(t, edge.Cluster.Kubeconfig, "fits 1 red", "get", "widgets", "-A", "--no-headers", "-o", "custom-columns=:metadata.name,:spec.size,:spec.colour")
	h.explains(t, "widgets.shop.example/more", "spec.weight: unknown field there", "the location has one/"+id)
	h.explains(t, "widgets.shop.example/less", "spec.size: Required value")

	// A schema that contradicts the first one fits none of its versions.
	two.apply(crd("widgets", "Widget", "{type: object, properties: {size: {type: integer}, weight: {type: integer}, colour: {type: integer}}}", ""))
	hasStates("Conflict DefinedOtherwise", "Applied ", "Held DefinedOtherwise", "Held DefinedOtherwise")
	h.explains(t, "crd/widgets.shop.example", "versions[v1] spec.colour: string there, integer here")

	one.apply(crd("widgets", "Widget", "{type: object, required: [size], properties: {size: {type: integer}, colour: {type: string, default: red}, weight: {type: integer}}}", ""))
	hasStates("Conflict DefinedOtherwise", "Applied ", "Applied ", "Held DefinedOtherwise")
	two.apply(widget("less", "{size: 3}"))
	hasStates("Conflict DefinedOtherwise", "Applied ", "Applied ", "Applied ")
	reads(t, edge.Cluster.Kubeconfig, "fits 1 red less 3 red more 1 red", "get", "widgets", "-A", "--no-headers", "-o", "custom-columns=:metadata.name,:spec.size,:spec.colour")

	one.kubectl("delete", "placement", "all")
	hasStates("Applied ", "Applied ", "Applied ", "Applied ")
}

// reads waits until kubectl prints a text for a cluster; whitespace between words does not count.
func reads(t *testing.T, kubeconfig, want string, args ...string) {
	t.Helper()
	env.Eventually(t, 2*soon, func() error {
		out, err := env.TryKubectl(t, kubeconfig, args...)
		if err == nil && strings.Join(strings.Fields(out), " ") != want {
			err = fmt.Errorf("it prints %q, want %q", out, want)
		}
		return err
	})
}

// explains checks that `orrery why` prints some texts for an object of the space two.
func (h hubOfAll) explains(t *testing.T, object string, want ...string) {
	t.Helper()
	args := []string{"why", object, "--location", "edge", "--space", "two"}
	if strings.HasPrefix(object, "widgets") {
		args = append(args, "-n", "default")
	}
	out := env.Orrery(t, h.Kubeconfig, args...)
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("orrery %s prints\n%swant %q in it", strings.Join(args, " "), out, text)
		}
	}
}
