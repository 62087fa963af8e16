package write_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// claimNamespaces lets the provider delete Namespaces and Secrets of space a with the label give=yes,
// and read its ConfigMaps with this label.
func (h *hub) claimNamespaces() {
	h.t.Helper()
	give := object{"matchLabels": object{"give": "yes"}}
	var claims []any
	for _, c := range []struct {
		group, resource string
		verbs           []string
	}{
		{"", "namespaces", []string{"get", "list", "create", "update", "patch", "delete"}},
		{"", "secrets", []string{"get", "list", "watch", "create", "delete"}},
		{"", "configmaps", []string{"get", "list"}},
		{"apiextensions.k8s.io", "customresourcedefinitions", []string{"get", "delete", "deletecollection"}},
	} {
		claims = append(claims, object{"group": c.group, "resource": c.resource, "verbs": c.verbs, "selector": give})
	}
	h.write(provider, key.APIExports, "e", object{"spec": object{"resources": []any{object{"group": "example.com", "resource": "widgets"}}, "claims": claims}})
	var decisions []any
	for _, c := range claims {
		decisions = append(decisions, object{"group": c.(object)["group"], "resource": c.(object)["resource"], "state": "Accepted"})
	}
	h.write("b", key.APIBindings, "e", object{
		"spec": object{"export": object{"space": provider, "name": "e"}, "claims": decisions},
		"status": object{"claims": claims, "resources": []any{object{"group": "example.com", "resource": "widgets", "kind": "Widget", "listKind": "WidgetList",
			"singular": "widget", "namespaced": true, "versions": []string{"v1", "v2"}, "storageVersion": "v1"}}},
	})
	h.caughtUp()
}

// given returns a Namespace, Secret or ConfigMap; labels selects it.
func given(kind, name string, labels bool) object {
	o := object{"apiVersion": "v1", "kind": kind, "metadata": object{"name": name}}
	if labels {
		return labeled(o, object{"give": "yes"})
	}
	return o
}

// TestThroughOwners checks that a provider can't delete objects outside of its view with the Namespace
// or CRD that owns them. The answer does not name these objects.
func TestThroughOwners(t *testing.T) {
	h := newExportHub(t)
	h.claimNamespaces()
	const all, namespace = "/api/v1/namespaces", "/api/v1/namespaces/give"
	one, wideRoot := viewPath("", "", "b"), viewPath("", "", key.AllSpaces)
	h.must(201, h.do("POST", "b", all, given("Namespace", "give", true)))
	h.must(201, h.do("POST", "b", namespace+"/secrets", given("Secret", "theirs", true)))
	refused := func(object string) {
		t.Helper()
		before := h.dump()
		for _, a := range []answer{
			h.do("DELETE", one, namespace, nil),
			h.do("DELETE", one, namespace, `{"dryRun":["All"]}`),
			h.do("DELETE", one, namespace, `{"propagationPolicy":"Foreground"}`),
			h.do("DELETE", wideRoot, all+"/b--give", nil),
		} {
			h.refused(a, 403, "Forbidden", "may not delete")
			if strings.Contains(string(a.raw), object) {
				t.Errorf("it names %s: %s", object, a.raw)
			}
		}
		if h.dump() != before {
			t.Error("it changed the log")
		}
	}
	h.must(201, h.do("POST", "b", namespace+"/secrets", given("Secret", "mine", false)))
	h.must(404, h.do("DELETE", one, namespace+"/secrets/mine", nil))
	refused("mine")
	h.must(200, h.do("DELETE", "b", namespace+"/secrets/mine", nil))
	h.must(201, h.do("POST", "b", namespace+"/configmaps", given("ConfigMap", "readable", true)))
	refused("readable") // the provider may read it, and not delete it
	h.must(200, h.do("DELETE", "b", namespace+"/configmaps/readable", nil))
	h.must(404, h.do("DELETE", one, all+"/kube-system", nil))
	h.must(200, h.do("DELETE", one, namespace, nil))
	if stored := string(h.stored("o/b/core/namespaces/give")); !strings.Contains(stored, "deletionTimestamp") {
		t.Errorf("not deleted: %s", stored)
	}
	h.must(200, h.do("DELETE", one, namespace, nil))
	h.must(403, h.do("POST", "b", namespace+"/secrets", given("Secret", "late", false)))

	gadgets := labeled(crd("gadgets", "Gadget", widgetSpec(object{})), object{"give": "yes"})
	h.must(201, h.do("POST", "b", crds, gadgets))
	h.caughtUp()
	h.must(201, h.do("POST", "b", "/apis/example.com/v1/namespaces/default/gadgets", object{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": object{"name": "g"}}))
	h.refused(h.do("DELETE", one, crds+"/gadgets.example.com", nil), 403, "Forbidden", "may not delete")
	h.refused(h.do("DELETE", one, crds, nil), 403, "Forbidden", "may not delete")
	h.must(200, h.do("DELETE", "b", "/apis/example.com/v1/namespaces/default/gadgets/g", nil))
	h.must(200, h.do("DELETE", one, crds, nil))
}

// TestThroughOwnersAtOnce checks a deletion of a Namespace during which the consumer creates an object
// outside of the view, or moves one out of it.
func TestThroughOwnersAtOnce(t *testing.T) {
	h := newExportHub(t)
	h.claimNamespaces()
	armed := &atomic.Pointer[func()]{}
	h.serve(between{armed})
	const all, namespace = "/api/v1/namespaces", "/api/v1/namespaces/give"
	h.must(201, h.do("POST", "b", all, given("Namespace", "give", true)))
	h.must(201, h.do("POST", "b", namespace+"/secrets", given("Secret", "theirs", true)))
	for _, during := range []struct {
		code int
		do   func() answer
	}{
		{201, func() answer { return h.do("POST", "b", namespace+"/secrets", given("Secret", "mine", false)) }},
		{200, func() answer {
			return h.do("PATCH", "b", namespace+"/secrets/theirs", `{"metadata":{"labels":{"give":"no"}}}`, "Content-Type", merge)
		}},
	} {
		var inner answer
		do := func() { inner = during.do() }
		armed.Store(&do)
		outer := h.do("DELETE", viewPath("", "", "b"), namespace, nil)
		h.must(during.code, inner)
		h.refused(outer, 403, "Forbidden", "may not delete")
		h.must(during.code, inner)
		if during.code == 201 {
			h.must(200, h.do("DELETE", "b", namespace+"/secrets/mine", nil))
		}
	}
	h.must(200, h.do("PATCH", "b", namespace+"/secrets/theirs", `{"metadata":{"labels":{"give":"yes"}}}`, "Content-Type", merge))
	do := func() { // objects elsewhere in the space do not matter
		h.must(201, h.do("POST", "b", secrets, given("Secret", "elsewhere", false)))
	}
	armed.Store(&do)
	h.must(200, h.do("DELETE", viewPath("", "", "b"), namespace, nil))
}
