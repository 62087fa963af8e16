package write_test

import (
	"fmt"
	"testing"
)

// TestTaintsHaveATime checks that the write that adds a taint records its revision, and that other
// writes and users do not change the record.
func TestTaintsHaveATime(t *testing.T) {
	h := newHub(t)
	l := object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Location", "metadata": object{"name": "l"}, "spec": object{
		"taints": []any{object{"key": "old", "effect": "NoPlace"}},
	}, "status": object{"taints": []any{object{"key": "old", "effect": "NoPlace", "resourceVersion": "7"}}}}
	since := func(a answer) map[string]any {
		all := map[string]any{}
		list, _ := a.field("status", "taints").([]any)
		for _, t := range list {
			t := t.(object)
			all[fmt.Sprint(t["key"], ":", t["effect"])] = t["resourceVersion"]
		}
		return all
	}
	first := since(h.must(201, h.do("POST", "root", locations, l)))
	old := first["old:NoPlace"]
	if len(first) != 1 || old == nil || old == "7" {
		t.Fatalf("created with %v", first)
	}
	h.must(201, h.do("POST", "a", configMaps, configMap("c", nil)))
	patch := func(path, body string) answer {
		return h.do("PATCH", "root", locations+"/l"+path, body, "Content-Type", "application/merge-patch+json")
	}
	now := since(h.must(200, patch("", `{"metadata":{"labels":{"a":"b"}},"spec":{"taints":[{"key":"new","effect":"Evict"},{"key":"old","value":"v","effect":"NoPlace"}]},"status":{"taints":null}}`)))
	if len(now) != 2 || now["old:NoPlace"] != old || now["new:Evict"] == nil || now["new:Evict"] == old {
		t.Errorf("after another: %v, before %v", now, first)
	}
	if after := since(h.must(200, patch("/status", `{"status":{"assigned":3}}`))); fmt.Sprint(after) != fmt.Sprint(now) {
		t.Errorf("after a status: %v, before %v", after, now)
	}
	if gone := h.must(200, patch("", `{"spec":{"taints":null}}`)); gone.field("status", "taints") != nil || gone.field("status", "assigned") != 3.0 {
		t.Errorf("without taints: %s", gone.raw)
	}
	again := since(h.must(200, patch("", `{"spec":{"taints":[{"key":"old","effect":"NoPlace"}]}}`)))
	if again["old:NoPlace"] == old || again["old:NoPlace"] == nil {
		t.Errorf("a taint that came again has the time of the former: %v", again)
	}
}
