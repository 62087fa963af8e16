package write_test

import (
	"testing"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/test/support/seeds"
)

// Every built-in kind can be created, applied, patched, given a status and
// deleted, and what was not written is not stored.
func TestEveryBuiltinKind(t *testing.T) {
	h := newHub(t)
	for _, kind := range shared.registry.Builtin("a").Kinds() {
		if shared.registry.Builtin("a").Access(kind) == kinds.Review {
			continue // nothing is kept of it
		}
		if kind.Custom != nil || kind.GVK.Kind == "CustomResourceDefinition" {
			continue
		}
		t.Run(kind.GVK.String(), func(t *testing.T) {
			parent := h.t
			h.t = t
			defer func() { h.t = parent }()
			h.roundTrip(kind)
		})
	}
}

func (h *hub) roundTrip(kind *kinds.Kind) {
	root := "/apis/" + kind.GVR.Group
	if kind.GVR.Group == "" {
		root = "/api"
	}
	root += "/" + kind.GVR.Version
	if kind.Namespaced {
		root += "/namespaces/default"
	}
	root += "/" + kind.GVR.Resource
	name := "example"
	if kind.GVK.Kind == "IPAddress" {
		name = "10.0.0.1"
	}
	body := object{"apiVersion": kind.GVK.GroupVersion().String(), "kind": kind.GVK.Kind, "metadata": object{"name": name, "labels": object{"x": "y"}}}
	a := h.must(201, h.do("POST", "a", root, body))
	generation := a.field("metadata", "generation")
	if kind.Generation != (generation == 1.0) {
		h.t.Errorf("generation %v: %s", generation, a.raw)
	}
	path := root + "/" + name
	h.must(200, h.do("PUT", "a", path, a.body))
	for contentType, patch := range seeds.Ordered(map[string]string{
		"application/merge-patch+json":           `{"metadata":{"labels":{"x":"1"}}}`,
		"application/strategic-merge-patch+json": `{"metadata":{"labels":{"x":"2"}}}`,
		"application/json-patch+json":            `[{"op":"replace","path":"/metadata/labels/x","value":"3"}]`,
	}) {
		if a = h.must(200, h.do("PATCH", "a", path, patch, "Content-Type", contentType)); a.field("metadata", "generation") != generation {
			h.t.Errorf("a label raised the generation: %s", a.raw)
		}
	}
	body["metadata"].(object)["labels"] = object{"z": "1"}
	apply := func() answer {
		return h.must(200, h.do("PATCH", "a", path+"?fieldManager=m&force=true", body, "Content-Type", "application/apply-patch+yaml"))
	}
	if one, two := apply(), apply(); one.field("metadata", "resourceVersion") != two.field("metadata", "resourceVersion") {
		h.t.Error("an apply that changes nothing made a write")
	}
	if kind.HasStatus {
		h.must(200, h.do("PATCH", "a", path+"/status", `{"status":{}}`, "Content-Type", "application/merge-patch+json"))
		h.must(200, h.do("GET", "a", path+"/status", nil))
	}
	if kind.Scale != nil {
		h.must(200, h.do("PATCH", "a", path+"/scale", `{"spec":{"replicas":4}}`, "Content-Type", "application/merge-patch+json"))
	}
	h.must(200, h.do("DELETE", "a", path, nil))
}
