package write_test

import (
	"maps"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestThroughForeignReferences checks that a reference in a slice can't bring an existing object into
// the slice from another one, or from none. An object with owners stays in the slice of these.
func TestThroughForeignReferences(t *testing.T) {
	h := newExportHub(t)
	x, y := viewPath("classes", "x", key.AllSpaces), viewPath("classes", "y", key.AllSpaces)
	secret := func(name string) object {
		return object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name}}
	}
	for _, name := range []string{"free", "of-y", "owned"} {
		s := secret(name)
		if name == "owned" {
			w := h.must(201, h.do("POST", "a", widgets, widget("owner", object{"class": "y"})))
			s["metadata"].(object)["ownerReferences"] = []any{object{"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": w.field("metadata", "uid")}}
		}
		h.must(201, h.do("POST", "a", secrets, s))
	}
	h.must(201, h.do("POST", "a", widgets, widget("other", object{"class": "y", "secret": "of-y"})))
	h.must(201, h.do("POST", x, wide("a", "widgets", ""), widget("w", nil)))
	for _, name := range []string{"free", "of-y", "owned"} {
		h.refused(h.do("POST", x, wide("a", "widgets", ""), widget("trap", object{"secret": name})), 403, "Forbidden", "spec.secret")
		patch := `{"spec":{"secret":"` + name + `"}}`
		h.refused(h.do("PATCH", x, wide("a", "widgets", "w"), patch, "Content-Type", merge), 403, "Forbidden", "spec.secret")
		h.refused(h.do("PATCH", x, wide("a", "widgets", "w")+"?dryRun=All", patch, "Content-Type", merge), 403, "Forbidden", name)
		h.refused(h.do("PATCH", viewPath("classes", "x", "a"), widgets+"/w", patch, "Content-Type", merge), 403, "Forbidden", "spec.secret")
		applied := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"secret":"` + name + `"}}`
		h.refused(h.do("PATCH", x, wide("a", "widgets", "new")+"?fieldManager=m", applied, "Content-Type", apply), 403, "Forbidden", "spec.secret")
		h.foreign(x, wide("a", "secrets", name))
	}
	h.must(200, h.do("PATCH", y, wide("a", "widgets", "owner"), `{"spec":{"secret":"of-y"}}`, "Content-Type", merge))
	h.must(200, h.do("PATCH", x, wide("a", "widgets", "w"), `{"spec":{"secret":"later"}}`, "Content-Type", merge))
	h.must(201, h.do("POST", x, wide("a", "secrets", ""), secret("later")))
	h.must(200, h.do("PATCH", "a", widgets+"/w", `{"spec":{"secret":"free"}}`, "Content-Type", merge))
	h.must(200, h.do("PATCH", x, wide("a", "widgets", "w"), `{"spec":{"replicas":2}}`, "Content-Type", merge))
	h.must(200, h.do("PATCH", x, wide("a", "secrets", "free"), `{"data":{"k":"dg=="}}`, "Content-Type", merge))
	h.must(200, h.do("PATCH", "a", widgets+"/w", `{"spec":{"secret":"owned"}}`, "Content-Type", merge))
	h.foreign(x, wide("a", "secrets", "owned"))
}

// TestThroughTakesNothing checks an object that several slices contain. No writer by one of them can
// remove it from another, by owners or by a label; a writer in its space can.
func TestThroughTakesNothing(t *testing.T) {
	h := newExportHub(t)
	x, y := viewPath("classes", "x", key.AllSpaces), viewPath("classes", "y", key.AllSpaces)
	const path = secrets + "/shared"
	h.must(201, h.do("POST", "a", secrets, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "shared"}}))
	owners := map[string]object{}
	for _, class := range []string{"x", "y"} {
		w := labeled(widget("of-"+class, object{"class": class, "secret": "shared"}), object{"tier": map[string]string{"x": "gold", "y": "silver"}[class]})
		w = h.must(201, h.do("POST", "a", widgets, w)).body
		owners[class] = object{"apiVersion": "example.com/v1", "kind": "Widget", "name": "of-" + class, "uid": w["metadata"].(object)["uid"]}
	}
	body := func(metadata object) object { return object{"metadata": metadata} }
	owned := func(owners ...any) object { return body(object{"ownerReferences": owners}) }
	patch := func(root, path string, b object) answer { return h.do("PATCH", root, path, b, "Content-Type", merge) }
	for _, f := range []struct{ root, path string }{
		{x, wide("a", "secrets", "shared")}, {viewPath("classes", "x", "a"), path}, {viewPath("tiers", "gold", key.AllSpaces), wide("a", "secrets", "shared")},
	} {
		h.refused(patch(f.root, f.path, owned(owners["x"])), 422, "Invalid", "metadata.ownerReferences")
		h.refused(patch(f.root, f.path, body(object{"labels": object{"tier": "gold"}})), 422, "Invalid", "metadata.labels[tier]")
		h.must(200, patch(f.root, f.path, owned(owners["x"], owners["y"])))
		h.refused(patch(f.root, f.path, owned(owners["x"])), 422, "Invalid", "metadata.ownerReferences")
		h.must(200, patch(f.root, f.path, owned()))
		h.must(200, patch(f.root, f.path, body(object{"labels": object{"other": "1"}})))
	}
	applied := object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "shared", "ownerReferences": []any{owners["x"]}}}
	h.refused(h.do("PATCH", x, wide("a", "secrets", "shared")+"?fieldManager=m&force=true", applied, "Content-Type", apply), 422, "Invalid", "metadata.ownerReferences")
	h.must(200, patch(y, wide("a", "secrets", "shared"), object{"data": object{"by": "eQ=="}}))

	h.must(200, patch("a", path, owned(owners["x"])))
	h.foreign(y, wide("a", "secrets", "shared"))
	h.must(200, patch("a", path, owned()))
	h.must(200, patch("a", widgets+"/of-y", object{"spec": object{"secret": nil}}))
	h.must(200, patch(x, wide("a", "secrets", "shared"), owned(owners["x"])))
}

// TestThroughNamesOfTheFuture checks that an object that is referred to before its creation is in the
// slice of the reference, unless it has an owner or a label of another slice.
func TestThroughNamesOfTheFuture(t *testing.T) {
	h := newExportHub(t)
	x, y := viewPath("classes", "x", key.AllSpaces), viewPath("classes", "y", key.AllSpaces)
	secret := func(name string, metadata object) object {
		m := object{"name": name}
		maps.Copy(m, metadata)
		return object{"apiVersion": "v1", "kind": "Secret", "metadata": m}
	}
	w := h.must(201, h.do("POST", y, wide("a", "widgets", ""), widget("w", nil)))
	owner := object{"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": w.field("metadata", "uid")}
	for name, metadata := range seeds.Ordered(map[string]object{"later": nil, "owned": {"ownerReferences": []any{owner}}}) {
		h.must(201, h.do("POST", x, wide("a", "widgets", ""), widget("of-"+name, object{"secret": name})))
		h.must(201, h.do("POST", "a", secrets, secret(name, metadata)))
	}
	h.must(200, h.do("PATCH", x, wide("a", "secrets", "later"), `{"data":{"k":"dg=="}}`, "Content-Type", merge))
	h.foreign(x, wide("a", "secrets", "owned"))
	h.must(200, h.do("PATCH", y, wide("a", "secrets", "owned"), `{"data":{"k":"dg=="}}`, "Content-Type", merge))
}
