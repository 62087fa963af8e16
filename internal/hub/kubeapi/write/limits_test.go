package write_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/protocol/key"
)

// limited is the space that the tests of limits write to.
const limited = "a"

// limit sets the limits of the space.
func (h *hub) limit(limits object) {
	h.t.Helper()
	h.must(200, h.do("PATCH", "root", spaces+"/"+limited, object{"spec": object{"limits": limits}}, "Content-Type", "application/merge-patch+json"))
	h.caughtUp()
}

// counted is what the log holds of the space, counted anew.
func (h *hub) counted() quota.Amount {
	h.t.Helper()
	var a quota.Amount
	for _, row := range h.rows(key.SpacePrefix(limited)) {
		a.Objects++
		a.Bytes += int64(len(row.Value))
		if strings.Contains(row.Key, "/customresourcedefinitions/") {
			a.CRDs++
		}
		if strings.Contains(row.Key, "/orrery.dev/placements/") || strings.Contains(row.Key, "/orrery.dev/customizers/") {
			a.Policies++
			a.PolicyTests += int64(selectors.TestsIn(row.Value))
		}
		if strings.Contains(row.Key, "/orrery.dev/summaries/") {
			a.Summaries++
		}
	}
	return a
}

func (h *hub) checkUsage() {
	h.t.Helper()
	h.caughtUp()
	if got, want := h.usage.InSpace(limited), h.counted(); got != want {
		h.t.Errorf("usage is %+v, the log holds %+v", got, want)
	}
}

func TestLimits(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", configMaps, configMap("one", object{"k": "v"})))
	h.must(201, h.do("POST", "a", configMaps, configMap("two", object{"k": "v"})))
	h.checkUsage()
	before := h.counted()
	forbidden := func(a answer, fragment string) {
		t.Helper()
		h.refused(a, 403, metav1.StatusReasonForbidden, fragment)
		h.checkUsage()
	}

	h.limit(object{"objects": before.Objects})
	forbidden(h.do("POST", "a", configMaps, configMap("three", nil)), fmt.Sprintf(
		`exceeded limits of space "a": requested: objects=1, used: objects=%d, limited: objects=%d`, before.Objects, before.Objects))
	// The other space has limits of its own, none here.
	h.must(201, h.do("POST", "b", configMaps, configMap("three", nil)))
	// Existing objects can be changed and deleted, and deletions make other creations possible.
	h.must(200, h.do("PUT", "a", configMaps+"/one", configMap("one", object{"k": "w"})))
	h.must(200, h.do("DELETE", "a", configMaps+"/one", nil))
	h.caughtUp()
	h.must(201, h.do("POST", "a", configMaps, configMap("three", nil)))

	h.limit(object{"objects": nil, "bytes": fmt.Sprint(h.counted().Bytes + 500)})
	forbidden(h.do("POST", "a", configMaps, configMap("large", object{"k": strings.Repeat("x", 2000)})), "bytes=")
	forbidden(h.do("PUT", "a", configMaps+"/two", configMap("two", object{"k": strings.Repeat("x", 2000)})), "bytes=")

	h.limit(object{"bytes": nil, "objectBytes": "1Ki"})
	forbidden(h.do("PUT", "a", configMaps+"/two", configMap("two", object{"k": strings.Repeat("x", 2000)})), "limited: objectBytes=1024")

	h.limit(object{"objectBytes": nil, "crds": 0})
	forbidden(h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))), "limited: crds=0")
	h.limit(object{"crds": 1})
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))

	h.limit(object{"policies": 1})
	downsync := []any{object{"names": []string{"x"}}}
	h.must(201, h.do("POST", "a", placements, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": "p"}, "spec": object{"downsync": downsync}}))
	customizer := object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Customizer", "metadata": object{"name": "c"},
		"spec": object{"match": downsync, "rules": []any{object{"path": "$.data", "release": true}}}}
	forbidden(h.do("POST", "a", customizers, customizer), "requested: policies=1, used: policies=1, limited: policies=1")
	h.must(200, h.do("PATCH", "a", placements+"/p", `{"spec":{"suspend":true}}`, "Content-Type", "application/merge-patch+json"))
	h.must(200, h.do("DELETE", "a", placements+"/p", nil))
	h.caughtUp()
	h.must(201, h.do("POST", "a", customizers, customizer))
	h.checkUsage()

	h.limit(object{"policies": nil, "summaries": 1})
	summary := func(name string) object {
		return object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Summary", "metadata": object{"name": name},
			"spec": object{"match": downsync, "combine": []any{object{"name": "n", "type": "COUNT"}}}}
	}
	h.must(201, h.do("POST", "a", summaries, summary("one")))
	forbidden(h.do("POST", "a", summaries, summary("two")), "requested: summaries=1, used: summaries=1, limited: summaries=1")
	h.must(200, h.do("DELETE", "a", summaries+"/one", nil))
	h.caughtUp()
	h.must(201, h.do("POST", "a", summaries, summary("two")))
	h.checkUsage()
}

// TestFullSpaceCanBeEmptied checks that objects of a full space can be deleted, even with finalizers.
func TestFullSpaceCanBeEmptied(t *testing.T) {
	h := newHub(t)
	held := configMap("held", nil)
	held["metadata"].(object)["finalizers"] = []string{"example.com/held", "example.com/kept"}
	h.must(201, h.do("POST", "a", configMaps, held))
	h.limit(object{"objects": 0, "bytes": "0", "objectBytes": "1"})
	h.must(200, h.do("DELETE", "a", configMaps+"/held", nil))
	patch := func(with object) answer {
		h.caughtUp()
		return h.do("PATCH", "a", configMaps+"/held", with, "Content-Type", "application/merge-patch+json")
	}
	h.refused(patch(object{"data": object{"k": strings.Repeat("x", 5000)}}), 403, metav1.StatusReasonForbidden, "bytes=")
	h.must(200, patch(object{"metadata": object{"finalizers": []string{"example.com/kept"}}}))
	h.must(200, patch(object{"metadata": object{"finalizers": nil}}))
	h.checkUsage()
}

// Concurrent writers cannot exceed a limit together.
func TestLimitsAreExact(t *testing.T) {
	h := newHub(t)
	const room, writers = 10, 40
	h.limit(object{"objects": h.counted().Objects + room})
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			if h.do("POST", "a", configMaps, configMap(fmt.Sprintf("c%d", i), nil)).code == 201 {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if made.Load() != room {
		t.Errorf("%d of %d writers made an object where there was room for %d", made.Load(), writers, room)
	}
	h.checkUsage()
}
