package shards

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
)

// goesIn bounds the time until a Namespace or CRD that was in use is removed: the agent checks once a
// minute.
const goesIn = 5 * time.Minute

// definition names a CRD and its kind.
type definition struct{ plural, singular, kind string }

func (d definition) name() string { return d.plural + ".shards.example" }

func (d definition) yaml() string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: shards.example
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s, listKind: %[4]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, d.name(), d.plural, d.singular, d.kind)
}

// in returns an object of the kind in the namespace of a space, and a Placement of it and its CRD.
func (d definition) in(space key.Space) string {
	return fmt.Sprintf(`---
apiVersion: shards.example/v1
kind: %s
metadata: {name: w, namespace: %s}
spec: {of: %[2]s}
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: %s}
spec:
  locations: [{selector: {matchLabels: {site: %s}}}]
  downsync:
  - {apiGroup: apiextensions.k8s.io, resources: [customresourcedefinitions], names: [%s]}
  - {apiGroup: shards.example, resources: [%[3]s]}
`, d.kind, space, d.plural, location, d.name())
}

// TestDefinitionOfTwoShards shows that a CRD that is assigned by two shards remains until neither
// assigns it, whichever shard removes its assignment first. Meanwhile no object of the other shard is
// written.
func TestDefinitionOfTwoShards(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	first, second := w.twoShards()
	for _, c := range []struct {
		name       string
		definition definition
		first      key.Space // deletes its Placement first
		last       key.Space
	}{
		{"TheFirstGoes", definition{"widgets", "widget", "Widget"}, first, second},
		{"TheSecondGoes", definition{"gadgets", "gadget", "Gadget"}, second, first},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			own := *w
			own.t = t
			own.definitionGoesWithTheLast(c.definition, first, second, c.first, c.last)
		})
	}
}

// definitionGoesWithTheLast creates a CRD in two spaces, the older one first, and removes both
// assignments, that of leaving first.
func (w *site) definitionGoesWithTheLast(d definition, older, newer, leaving, staying key.Space) {
	t := w.t
	client, err := dynamic.NewForConfig(w.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	kind := client.Resource(schema.GroupVersionResource{Group: "shards.example", Version: "v1", Resource: d.plural})
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	placed := func(space key.Space) (made *unstructured.Unstructured) {
		env.Eventually(t, soon, func() (err error) {
			made, err = kind.Namespace(string(space)).Get(t.Context(), "w", metav1.GetOptions{})
			return err
		})
		return made
	}
	gone := func(client dynamic.ResourceInterface, name string) {
		env.Eventually(t, goesIn, func() error {
			o, err := client.Get(t.Context(), name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("%s exists, with deletionTimestamp %v", name, o.GetDeletionTimestamp())
		})
	}
	for _, space := range []key.Space{older, newer} {
		w.apply(space, d.yaml())
		w.apply(space, d.in(space))
		placed(space)
	}
	before := placed(staying)

	w.kubectl(leaving, "delete", "placement", d.plural)
	gone(kind.Namespace(string(leaving)), "w")
	env.Throughout(t, 5*time.Second, func() error {
		definition, err := definitions.Get(t.Context(), d.name(), metav1.GetOptions{})
		if err == nil && definition.GetDeletionTimestamp() != nil {
			err = fmt.Errorf("the definition is deleted at %s", definition.GetDeletionTimestamp())
		}
		return err
	})
	if now := placed(staying); now.GetUID() != before.GetUID() || now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the object of the other shard was written: %s %s, was %s %s", now.GetUID(), now.GetResourceVersion(), before.GetUID(), before.GetResourceVersion())
	}

	w.kubectl(staying, "delete", "placement", d.plural)
	gone(kind.Namespace(string(staying)), "w")
	gone(definitions, d.name())
}
