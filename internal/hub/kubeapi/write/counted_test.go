package write_test

import (
	"fmt"
	"sync"
	"testing"

	"orrery.dev/orrery/test/support/seeds"
)

const (
	viewsOf    = "/apis/orrery.dev/v1alpha1/apiexportviews"
	bindingsOf = "/apis/orrery.dev/v1alpha1/apibindings"
)

// TestFewViewsAndBindings checks the limits of the views of an export and the bindings of a space.
// Concurrent creations can't exceed them, and existing objects can be changed.
func TestFewViewsAndBindings(t *testing.T) {
	h := newHub(t)
	for path, c := range seeds.Ordered(map[string]struct {
		most int
		make func(name string) object
		// other is one that is not counted with them.
		other object
	}{
		viewsOf: {16, func(name string) object {
			return object{"apiVersion": "orrery.dev/v1alpha1", "kind": "APIExportView", "metadata": object{"name": name},
				"spec": object{"export": "e", "split": object{"label": "tier"}}}
		}, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "APIExportView", "metadata": object{"name": "other"},
			"spec": object{"export": "other", "split": object{"label": "tier"}}}},
		bindingsOf: {128, func(name string) object {
			return object{"apiVersion": "orrery.dev/v1alpha1", "kind": "APIBinding", "metadata": object{"name": name},
				"spec": object{"export": object{"space": "b", "name": "e"}}}
		}, nil},
	}) {
		for i := range c.most - 4 {
			h.must(201, h.do("POST", "a", path, c.make(fmt.Sprintf("first-%d", i))))
		}
		var wg sync.WaitGroup
		answers := make([]answer, 8)
		for i := range answers {
			name, method, target := fmt.Sprintf("late-%d", i), "POST", path
			if i%2 == 0 {
				method, target = "PATCH", path+"/"+name+"?fieldManager=m"
			}
			wg.Go(func() {
				answers[i] = h.do(method, "a", target, c.make(name), "Content-Type", map[string]string{"POST": "application/json", "PATCH": apply}[method])
			})
		}
		wg.Wait()
		made := 0
		for _, a := range answers {
			if a.code == 201 {
				made++
			} else {
				h.must(422, a)
			}
		}
		if made != 4 {
			t.Errorf("%s: %d more were made, want 4", path, made)
		}
		h.must(200, h.do("PATCH", "a", path+"/first-0", object{"metadata": object{"labels": object{"x": "y"}}}, "Content-Type", merge))
		if c.other != nil {
			h.must(201, h.do("POST", "a", path, c.other))
		}
	}
}
