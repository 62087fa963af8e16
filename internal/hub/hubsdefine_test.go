package hub_test

import (
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestDefinitionsAtTwoHubs: if two CRDs with the same names are written at two hubs at once, one of them gets
// the names, and both hubs agree which.
func TestDefinitionsAtTwoHubs(t *testing.T) {
	t.Parallel()
	hubs := hubsOn(t, 2)
	hubs[0].addSpace("s")
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	const rounds = 8
	for round := range rounds {
		group := fmt.Sprintf("round%d.example.com", round)
		var both sync.WaitGroup
		for i, plural := range []string{"apples", "pears"} {
			both.Go(func() {
				crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+"."+group, nil, map[string]any{"spec": map[string]any{
					"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": "Fruit"},
					"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
						"openAPIV3Schema": map[string]any{"type": "object"},
					}}},
				}})
				if _, err := hubs[i].space("s").Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		for _, r := range hubs {
			accepted := 0
			for _, plural := range []string{"apples", "pears"} {
				crd, err := r.space("s").Resource(crds).Get(t.Context(), plural+"."+group, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if dig(crd.Object, "status", "acceptedNames", "kind") == "Fruit" {
					accepted++
				}
			}
			if accepted != 1 {
				t.Fatalf("round %d: %d have the name", round, accepted)
			}
		}
	}
}
