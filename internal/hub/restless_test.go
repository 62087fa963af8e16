package hub_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
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
	written := make(chan int, 1)
	go func() {
		n := 0
		for range w.ResultChan() {
			n++
		}
		written <- n
	}()
	begun := time.Now()
	for i := range 40 {
		r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`)
		if i%10 == 9 {
			r.readsOn("withdrawn")
		}
		r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[{"group":"fleet.example.org","resource":"clusters"}]}}`)
		if _, err := r.clusters("c").Patch(t.Context(), "one", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"class":"c%d"}}`, i), metav1.PatchOptions{}); err != nil {
			t.Fatalf("once it is exported again: %v", err)
		}
	}
	r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`)
	r.bound("c", v1alpha1.ReasonNotExported)
	w.Stop()
	// The first event is how it was.
	if n, most := <-written, 1+10+1+int(time.Since(begun)/(10*time.Second)); n < 3 || n > most {
		t.Errorf("the binding was written %d times, at most %d", n, most)
	}
}
