package write_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCustomizersWithData: so many Customizers of a space use ConfigMaps and no more; those that
// do can be changed, and one that goes makes room.
func TestCustomizersWithData(t *testing.T) {
	h := newHub(t)
	customizer := func(i int, spec object) object {
		spec["match"], spec["rules"] = []any{object{"names": []string{"x"}}}, []any{object{"path": "$.data.x", "value": "x"}}
		return object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Customizer", "metadata": object{"name": fmt.Sprint("c", i)}, "spec": spec}
	}
	data := func() object {
		return object{"data": []any{object{"name": "d", "configMap": object{"namespace": "default", "name": "d"}}}}
	}
	const most = 32
	for i := range most {
		h.must(201, h.do("POST", "a", customizers, customizer(i, data())))
	}
	h.caughtUp()
	full := func(a answer) {
		t.Helper()
		h.refused(a, 422, metav1.StatusReasonInvalid, "spec.data: Forbidden: 32 Customizers of the space use ConfigMaps already")
	}
	full(h.do("POST", "a", customizers, customizer(most, data())))
	h.must(201, h.do("POST", "b", customizers, customizer(most, data())))
	h.must(201, h.do("POST", "a", customizers, customizer(most, object{})))
	h.caughtUp()
	patch := func(i int, spec object) answer {
		return h.do("PATCH", "a", fmt.Sprint(customizers, "/c", i), object{"spec": spec}, "Content-Type", "application/merge-patch+json")
	}
	full(patch(most, data()))
	h.must(200, patch(0, object{"priority": 1}))
	h.must(200, patch(0, object{"data": nil}))
	h.caughtUp()
	h.must(200, patch(most, data()))
}
