package hub_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/limit"
)

// TestRestlessProvider: a provider that changes what it exports over and over has the bindings
// of its consumers written now and then; what they may do follows each change at once, and
// the bindings say in the end how it is.
func TestRestlessProvider(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.bound("c", v1alpha1.ReasonServed)
	r.create("c", clustersGVR, cluster("one", "gold"))
	w, err := r.space("c").Resource(bindingsGVR).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=fleet"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	written := make(chan string, 1000) // the revisions of the binding
	go func() {
		defer close(written)
		for e := range w.ResultChan() {
			if b, ok := e.Object.(*unstructured.Unstructured); ok {
				written <- b.GetResourceVersion()
			}
		}
	}()
	begun := time.Now()
	for i := range 40 {
		r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`)
		if i%10 == 9 {
			r.readsOn("withdrawn")
		}
		if i == 9 { // it is written while the provider goes on
			r.bound("c", v1alpha1.ReasonNotExported)
		}
		r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[{"group":"fleet.example.org","resource":"clusters"}]}}`)
		if _, err := r.clusters("c").Patch(t.Context(), "one", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"class":"c%d"}}`, i), metav1.PatchOptions{}); err != nil {
			t.Fatalf("once it is exported again: %v", err)
		}
	}
	r.bound("c", v1alpha1.ReasonServed)
	r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`)
	last := r.bound("c", v1alpha1.ReasonNotExported)
	n := 1
	for limit.Receive(t, written, "the last revision of the binding") != last.ResourceVersion {
		n++
	}
	// The first event is how it was. Three writes are waited for.
	if most := 1 + 10 + 1 + int(time.Since(begun)/(10*time.Second)); n < 1+3 || n > most {
		t.Errorf("a watch shows the binding %d times in %s, want %d to %d", n, time.Since(begun), 1+3, most)
	}
}
