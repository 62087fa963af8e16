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

// goesIn is how long it may take until a Namespace or CRD that was in use goes: that is looked at once a minute.
const goesIn = 5 * time.Minute

// definition is a CRD of a plural, and what is made of it.
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

// in is an object of the kind in the namespace of a space, and what places it with its definition.
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

// TestDefinitionOfTwoShards: a CRD that two shards want stays while either has an object of its kind,
// also once one has let it go, the first or the second, and nothing of the other is written meanwhile;
// it goes with the last.
func TestDefinitionOfTwoShards(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	first, second := w.twoShards()
	for _, c := range []struct {
		name       string
		definition definition
		goes       key.Space
		stays      key.Space
	}{
		{"TheFirstGoes", definition{"widgets", "widget", "Widget"}, first, second},
		{"TheSecondGoes", definition{"gadgets", "gadget", "Gadget"}, second, first},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			of := *w
			of.t = t
			of.definitionGoesWithTheLast(c.definition, first, second, c.goes, c.stays)
		})
	}
}

// definitionGoesWithTheLast has two spaces make a definition, one after the other, and let it go.
func (w *site) definitionGoesWithTheLast(d definition, first, second, goes, stays key.Space) {
	t := w.t
	client, err := dynamic.NewForConfig(w.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	kind := client.Resource(schema.GroupVersionResource{Group: "shards.example", Version: "v1", Resource: d.plural})
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	of := func(space key.Space) (made *unstructured.Unstructured) {
		env.Eventually(t, soon, func() (err error) {
			made, err = kind.Namespace(string(space)).Get(t.Context(), "w", metav1.GetOptions{})
			return err
		})
		return made
	}
	gone := func(of dynamic.ResourceInterface, name string) {
		env.Eventually(t, goesIn, func() error {
			o, err := of.Get(t.Context(), name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("%s is there, deleted at %v", name, o.GetDeletionTimestamp())
		})
	}
	for _, space := range []key.Space{first, second} {
		w.apply(space, d.yaml())
		w.apply(space, d.in(space))
		of(space)
	}
	before := of(stays)

	w.kubectl(goes, "delete", "placement", d.plural)
	gone(kind.Namespace(string(goes)), "w")
	env.Throughout(t, 5*time.Second, func() error {
		definition, err := definitions.Get(t.Context(), d.name(), metav1.GetOptions{})
		if err == nil && definition.GetDeletionTimestamp() != nil {
			err = fmt.Errorf("the definition is deleted at %s", definition.GetDeletionTimestamp())
		}
		return err
	})
	if now := of(stays); now.GetUID() != before.GetUID() || now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the other shard's object was written: %s %s, was %s %s", now.GetUID(), now.GetResourceVersion(), before.GetUID(), before.GetResourceVersion())
	}

	w.kubectl(stays, "delete", "placement", d.plural)
	gone(kind.Namespace(string(stays)), "w")
	gone(definitions, d.name())
}
