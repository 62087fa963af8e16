package write_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
)

// still is a log that takes only what does not grow, and the last steps of deletions.
type still struct{}

func (still) Admit(_ context.Context, w write.Write) (func(error) error, error) {
	if w.Grows && !w.Ends {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "LogFull"}}
	}
	return func(err error) error { return err }, nil
}

// TestGrowthWhileBeingDeleted checks that an object that is being deleted may grow a little once, even
// beyond the quota of the log or the limits of its space. It may not grow with each further update or
// finalizer. Writes that make it smaller always succeed.
func TestGrowthWhileBeingDeleted(t *testing.T) {
	const slack = 4 << 10
	for _, c := range []struct {
		name string
		code int
		fill func(*hub)
	}{
		{"log", http.StatusInsufficientStorage, func(h *hub) {
			h.serve(still{})
		}},
		{"space", http.StatusForbidden, func(h *hub) { h.limit(object{"bytes": "0"}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			var finalizers []string
			for i := range 20 {
				finalizers = append(finalizers, fmt.Sprint("example.com/", i))
			}
			held := configMap("held", nil)
			held["metadata"].(object)["finalizers"] = finalizers
			h.must(201, h.do("POST", "a", configMaps, held))
			c.fill(h)
			h.must(200, h.do("DELETE", "a", configMaps+"/held", nil))
			stored := func() int { return len(h.stored("o/a/core/configmaps/default/held")) }
			patch := func(size int) answer {
				h.caughtUp()
				return h.do("PATCH", "a", configMaps+"/held?fieldManager=m", object{
					"metadata": object{"finalizers": finalizers}, "data": object{"k": strings.Repeat("x", size)},
				}, "Content-Type", "application/merge-patch+json")
			}
			before := stored()
			refused, size := 0, 0
			for len(finalizers) > 10 { // each of which is a step of its end
				finalizers = finalizers[1:]
				switch a := patch(size + 1000); a.code {
				case http.StatusOK:
					size += 1000
				case c.code:
					refused++
				default:
					t.Fatalf("%d: %s", a.code, a.raw)
				}
			}
			if refused == 0 || size == 0 || stored() > before+slack {
				t.Errorf("it grew from %d to %d bytes, %d updates were refused", before, stored(), refused)
			}
			finalizers = finalizers[1:]
			h.must(200, patch(size)) // without growth
			finalizers = finalizers[1:]
			h.must(200, patch(0))
			h.must(200, h.do("PATCH", "a", configMaps+"/held", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json"))
			if h.stored("o/a/core/configmaps/default/held") != nil {
				t.Error("it is still there")
			}
		})
	}
}
