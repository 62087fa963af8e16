package write_test

import (
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
)

const (
	orrery      = "/apis/orrery.dev/v1alpha1"
	spaces      = orrery + "/spaces"
	locations   = orrery + "/locations"
	placements  = orrery + "/placements"
	customizers = orrery + "/customizers"
	summaries   = orrery + "/summaries"
)

// rows are the rows of the table below a prefix.
func (h *hub) rows(p string) []*table.Row {
	h.caughtUp()
	var rows []*table.Row
	h.table.Snapshot().Ascend(p, func(r *table.Row) bool {
		rows = append(rows, r)
		return true
	})
	return rows
}

// Equal names in two spaces are different objects for every verb.
func TestSpacesAreApart(t *testing.T) {
	h := newHub(t)
	for _, s := range []string{"a", "b"} {
		h.must(201, h.do("POST", s, configMaps, configMap("c", object{"in": s})))
		h.must(201, h.do("POST", s, "/apis/rbac.authorization.k8s.io/v1/clusterroles", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": "r", "labels": object{"in": s}},
		}))
	}
	other := func() string { return string(h.stored("o/b/core/configmaps/default/c")) }
	before := other()
	merge := []string{"Content-Type", "application/merge-patch+json"}
	if a := h.must(200, h.do("PATCH", "a", configMaps+"/c", `{"metadata":{"annotations":{"orrery.dev/space":"b"}}}`, merge...)); a.field("data", "in") != "a" {
		t.Errorf("patched another space's object: %s", a.raw)
	}
	h.must(200, h.do("DELETE", "a", configMaps, nil))
	if other() != before {
		t.Error("a write into space a changed space b")
	}
	h.must(200, h.do("DELETE", "a", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", nil))
	if h.stored("o/b/rbac.authorization.k8s.io/clusterroles/r") == nil {
		t.Error("a delete in space a reached space b")
	}
	h.must(404, h.do("PATCH", "a", configMaps+"/c", `{"data":{"x":"y"}}`, merge...))
	if other() != before {
		t.Error("a write into space a changed space b")
	}
}

// A space is usable at once, and a space that is being deleted is not.
func TestSpaceLifecycle(t *testing.T) {
	h := newHub(t)
	if h.stored("o/a/core/namespaces/default") == nil {
		t.Fatal("a new space has no namespace default")
	}
	for _, name := range []string{"x", "y", "z"} {
		c := configMap(name, nil)
		c["metadata"].(object)["finalizers"] = []string{"example.com/wait"}
		h.must(201, h.do("POST", "a", configMaps, c))
	}
	h.must(201, h.do("POST", "b", configMaps, configMap("x", nil)))
	if p, err := h.server.FinishSpace(h.ctx, "a"); p != 0 || err != nil {
		t.Fatalf("finish of a living space: %v, %v", p, err)
	}
	a := h.must(200, h.do("DELETE", "root", spaces+"/a", nil))
	if a.field("metadata", "deletionTimestamp") == nil {
		t.Errorf("deleted: %s", a.raw)
	}
	h.refused(h.do("POST", "a", configMaps, configMap("w", nil)), 403, "Forbidden", "terminated")
	h.must(200, h.do("PATCH", "root", spaces+"/a", `{"metadata":{"finalizers":[]}}`, "Content-Type", "application/merge-patch+json"))
	h.finish(func() (progress, error) { return h.server.FinishSpace(h.ctx, "a") })
	if n := h.keys("o/a/"); n != 0 || h.stored("o/root/orrery.dev/spaces/a") != nil {
		t.Errorf("%d keys left of the space", n)
	}
	if h.stored("o/b/core/configmaps/default/x") == nil {
		t.Error("another space lost an object")
	}
	h.refused(h.do("POST", "a", configMaps, configMap("w", nil)), 404, "NotFound", "a")
	h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": "a"}}))
	h.must(201, h.do("POST", "a", configMaps, configMap("w", nil)))
}

func TestOrreryKinds(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "root", locations, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Location", "metadata": object{"name": "l"}, "spec": object{}}))
	a := h.must(201, h.do("POST", "a", placements, object{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": "p"},
		"spec": object{"locations": []any{object{"names": []string{"l"}}}, "downsync": []any{object{"resources": []string{"configmaps"}}}},
	}))
	if a.field("metadata", "generation") != 1.0 {
		t.Errorf("placement: %s", a.raw)
	}
	a = h.must(200, h.do("PATCH", "a", placements+"/p/status", `{"status":{"objects":3}}`, "Content-Type", "application/merge-patch+json"))
	if a.field("status", "objects") != 3.0 || a.field("metadata", "generation") != 1.0 {
		t.Errorf("status of the placement: %s", a.raw)
	}
	empty := h.do("POST", "a", placements, object{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": "q"},
		"spec": object{"locations": []any{object{"names": []string{"l"}}}, "downsync": []any{object{}}},
	})
	h.refused(empty, 422, "Invalid", "downsync")
}
