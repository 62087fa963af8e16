package write_test

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestUnbindingWaitsForRoom checks that objects of a deleted binding stay while the log has no space
// for their annotation. Without it, their locations would take the deletion for a user's request.
// Objects that are assigned to no location are deleted.
func TestUnbindingWaitsForRoom(t *testing.T) {
	h := newPlacingHub(t, placement.New())
	h.must(201, h.do("POST", "root", "/apis/orrery.dev/v1alpha1/locations", object{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Location", "metadata": object{"name": "l", "labels": object{"where": "here"}}}))
	h.must(201, h.do("POST", "a", "/apis/orrery.dev/v1alpha1/placements", object{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": "p"}, "spec": object{
			"locations": []any{object{"selector": object{"matchLabels": object{"where": "here"}}}},
			"downsync":  []any{object{"labelSelectors": []any{object{"matchLabels": object{"app": "x"}}}}},
		}}))
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	h.must(201, h.do("POST", "a", widgets, labeled(widget("placed", nil), object{"app": "x"})))
	h.must(201, h.do("POST", "a", widgets, widget("unplaced", nil)))
	h.write("a", key.APIBindings, "e", object{
		"metadata": object{"name": "e", "uid": "e", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []string{"orrery.dev/content"}},
		"spec":     object{"export": object{"space": provider, "name": "e"}},
		"status":   object{"resources": []any{object{"group": "example.com", "resource": "widgets"}}},
	})
	h.caughtUp()
	h.serve(full{})
	const placed = "o/a/example.com/widgets/default/placed"
	before := string(h.stored(placed))
	for range 3 {
		if p, err := h.server.FinishBinding(h.ctx, "a", "e"); p == write.Gone || err == nil {
			t.Fatalf("finish: %v, %v", p, err)
		}
		h.caughtUp()
	}
	if now := string(h.stored(placed)); now != before {
		t.Errorf("what could not be marked is %q", now)
	}
	if h.stored("o/a/example.com/widgets/default/unplaced") != nil {
		t.Error("what needs no mark did not make room")
	}
	h.serve(nil)
	from := h.rev() + 1
	h.finish(func() (progress, error) { return h.server.FinishBinding(h.ctx, "a", "e") })
	if n := h.keys("o/a/example.com/widgets/"); n != 0 {
		t.Errorf("%d widgets are left", n)
	}
	if first := h.firstOf(placed, from); !strings.Contains(first, `"orrery.dev/unbound":"e"`) {
		t.Errorf("it went without its mark: %s", first)
	}
}

// firstOf returns the first value of a key since a revision.
func (h *hub) firstOf(k string, from int64) string {
	h.t.Helper()
	for rev := from; rev <= h.rev(); rev++ {
		r, err := h.client.Client.Get(h.ctx, prefix+k, clientv3.WithRev(rev))
		if err != nil {
			h.t.Fatal(err)
		}
		if len(r.Kvs) == 0 || r.Kvs[0].ModRevision >= from {
			if len(r.Kvs) == 0 {
				return ""
			}
			return string(r.Kvs[0].Value)
		}
	}
	return ""
}
