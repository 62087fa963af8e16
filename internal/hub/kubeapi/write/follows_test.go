package write_test

import (
	"context"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
)

// TestUnknownRightsAreNotNone checks that a write of a Placement is refused while the rights of its
// user are unknown. Without any rights, all objects that follow would be removed from their
// locations.
func TestUnknownRightsAreNotNone(t *testing.T) {
	h := newHub(t)
	known := true
	follows := func(context.Context, *v1alpha1.Placement) []v1alpha1.Follows {
		if !known {
			return nil
		}
		return []v1alpha1.Follows{{Entry: 1, Resources: []string{"secrets"}}}
	}
	var err error
	h.server, err = write.New(write.Config{Client: h.client, Prefix: prefix, Table: h.table.Table, Limits: quota.New(h.table.Table, h.usage), Kinds: h.kinds, Follows: follows})
	if err != nil {
		t.Fatal(err)
	}
	const all = "/apis/orrery.dev/v1alpha1/placements"
	placement := func(name, namespace string) object {
		return object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": name}, "spec": object{
			"downsync": []object{{"names": []string{"x"}}, {"namespaces": []string{namespace}, "followReferences": true}},
		}}
	}
	h.must(201, h.do("POST", "a", all, placement("p", "one")))
	known = false
	h.refused(h.do("POST", "a", all, placement("q", "one")), 422, "Invalid", "spec.downsync[1].followReferences")
	patch := func(body string) answer {
		return h.do("PATCH", "a", all+"/p", body, "Content-Type", "application/merge-patch+json")
	}
	h.refused(patch(`{"spec":{"suspend":true}}`), 422, "Invalid", "spec.downsync[1].followReferences")
	h.must(200, patch(`{"metadata":{"labels":{"a":"b"}}}`))
	known = true
	h.must(200, patch(`{"spec":{"suspend":true}}`))
}
