package operator

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var gadgets = schema.GroupVersionResource{Group: "vendor.example", Version: "v1", Resource: "gadgets"}

const gadgetDefinition = "gadgets.vendor.example"

// vendor is a provider's space, and two that have bound what it exports, each with a gadget
// that is placed at a bare cluster.
type vendor struct {
	*world.World
	*world.Site
	t     *testing.T
	files map[string]string // kubeconfigs of the spaces
}

func newVendor(t *testing.T) *vendor {
	t.Helper()
	w := world.New(t)
	v := &vendor{World: w, t: t, files: map[string]string{}}
	for _, s := range []string{"vendor", "alpha", "beta"} {
		v.files[s] = w.AddSpace(s)
	}
	v.Site = v.Join(siteName, nil, env.APIOnly())
	v.define("name")
	v.apply("vendor", `
apiVersion: orrery.dev/v1alpha1
kind: APIExport
metadata: {name: gadgets}
spec: {resources: [{group: vendor.example, resource: gadgets}]}
`)
	for _, s := range []string{"alpha", "beta"} {
		v.apply(s, `
apiVersion: orrery.dev/v1alpha1
kind: APIBinding
metadata: {name: gadgets}
spec: {export: {space: vendor, name: gadgets}}
`)
		v.apply(s, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: gadgets}
spec:
  locations: [{selector: {}}]
  downsync: [{apiGroup: vendor.example, resources: [gadgets], followReferences: true}]
---
{apiVersion: vendor.example/v1, kind: Gadget, metadata: {name: one, namespace: %[1]s}, spec: {name: first}}
`, s))
	}
	return v
}

func (v *vendor) apply(space, yaml string) {
	v.t.Helper()
	env.KubectlIn(v.t, v.files[space], yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// define has the provider define gadgets with some fields.
func (v *vendor) define(fields ...string) {
	v.t.Helper()
	v.apply("vendor", fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.vendor.example}
spec:
  group: vendor.example
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s: {type: string}}}}}}
`, strings.Join(fields, ": {type: string}, ")))
}

// hasValue returns an error unless the gadget of a space exists at the site with a value in a field.
func (v *vendor) hasValue(space, field, value string) func() error {
	return func() error {
		u, err := v.Client.Resource(gadgets).Namespace(space).Get(v.t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got, _, err := unstructured.NestedString(u.Object, "spec", field)
		if err == nil && got != value {
			err = fmt.Errorf("%s is %q, want %q", field, got, value)
		}
		return err
	}
}

// defined returns an error unless the definition is at the site, or is not.
func (v *vendor) defined(want bool) func() error {
	return func() error {
		_, err := v.Client.Resource(world.CRDs).Get(v.t.Context(), gadgetDefinition, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if is := err == nil; is != want {
			return fmt.Errorf("the definition exists: %v", is)
		}
		return nil
	}
}

func (v *vendor) why(space string, want ...string) {
	v.t.Helper()
	output := env.Orrery(v.t, v.files[space], "why", "crd/"+gadgetDefinition, "--location", siteName)
	for _, text := range want {
		if !strings.Contains(output, text) {
			v.t.Errorf("orrery why in space %s prints no %q:\n%s", space, text, output)
		}
	}
}

// TestDefinitionsOfWhatIsBound shows that the agent installs the CRD of a bound API from the space of
// the provider. The spaces share the CRD. It changes with that of the provider, remains after the
// provider's is deleted while objects exist at the site, and is removed with the last of them.
func TestDefinitionsOfWhatIsBound(t *testing.T) {
	v := newVendor(t)
	v.Eventually("the site has the gadget of alpha", v.hasValue("alpha", "name", "first"))
	v.Eventually("the site has the gadget of beta", v.hasValue("beta", "name", "first"))
	v.Invariants()
	v.why("alpha", "is assigned", `it comes from space "vendor" by APIBinding gadgets`, "it follows the objects that refer to it: vendor.example/gadgets/alpha/one")
	v.why("vendor", "is assigned", "alpha/gadgets, beta/gadgets")

	v.define("name", "size")
	v.apply("alpha", `{apiVersion: vendor.example/v1, kind: Gadget, metadata: {name: one, namespace: alpha}, spec: {name: first, size: large}}`)
	v.Eventually("the site has the new field", v.hasValue("alpha", "size", "large"))

	env.Kubectl(t, v.files["beta"], "delete", "apibinding", "gadgets")
	v.Eventually("the object of the unbound space is removed", func() error {
		if _, err := v.Client.Resource(gadgets).Namespace("beta").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get: %w", err)
		}
		return nil
	})
	v.stays()

	env.Kubectl(t, v.files["vendor"], "delete", "crd", gadgetDefinition)
	v.stays()
	v.define("name", "size", "color")
	v.Eventually("the space accepts writes again", func() error {
		_, err := env.TryKubectl(t, v.files["alpha"], "patch", "gadgets", "-n", "alpha", "one", "--type=merge", "-p", `{"spec":{"color":"red"}}`)
		return err
	})
	v.Eventually("the site has the definition that is back", v.hasValue("alpha", "color", "red"))
	v.Invariants()

	env.Kubectl(t, v.files["alpha"], "delete", "gadget", "-n", "alpha", "one")
	v.Eventually("the definition is removed", v.defined(false))
}

// stays checks for a while that the definition and the other gadget still exist.
func (v *vendor) stays() {
	v.t.Helper()
	env.Throughout(v.t, observation, func() error {
		if err := v.defined(true)(); err != nil {
			return err
		}
		return v.hasValue("alpha", "size", "large")()
	})
}
