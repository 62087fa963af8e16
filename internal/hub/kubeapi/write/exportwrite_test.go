package write_test

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// wide returns the path of widgets and racks in a view of all spaces.
func wide(s, resource, name string) string {
	const base = "/apis/example.com/v1"
	switch resource {
	case "racks":
		if name != "" {
			name = "/" + s + "--" + name
		}
		return base + "/racks" + name
	case "widgets":
		base := base + "/namespaces/" + s + "--default/widgets"
		if name != "" {
			base += "/" + name
		}
		return base
	}
	if name != "" {
		name = "/" + name
	}
	return "/api/v1/namespaces/" + s + "--default/" + resource + name
}

const racks = "/apis/example.com/v1/racks"

// TestThroughWildcard checks that all verbs work with wide names as they do in the space, and that
// responses contain the names of the request.
func TestThroughWildcard(t *testing.T) {
	h := newExportHub(t)
	all := viewPath("", "", key.AllSpaces)
	made := h.must(201, h.do("POST", all, wide("a", "widgets", ""), widget("w", object{"replicas": 1})))
	h.called(made, "a--default", "w")
	if h.stored("o/a/example.com/widgets/default/w") == nil || h.stored("o/b/example.com/widgets/default/w") != nil {
		t.Fatal("created elsewhere")
	}
	made.body["spec"].(object)["replicas"] = 2
	changed := h.must(200, h.do("PUT", all, wide("a", "widgets", "w"), made.body))
	if changed.field("spec", "replicas") != 2.0 || changed.field("metadata", "uid") != made.field("metadata", "uid") {
		t.Errorf("updated: %s", changed.raw)
	}
	h.called(changed, "a--default", "w")
	for kind, body := range seeds.Ordered(map[string]string{
		merge:                         `{"spec":{"size":"m"}}`,
		"application/json-patch+json": `[{"op":"add","path":"/metadata/annotations/k","value":"v"},{"op":"test","path":"/metadata/namespace","value":"a--default"}]`,
	}) {
		h.called(h.must(200, h.do("PATCH", all, wide("a", "widgets", "w"), body, "Content-Type", kind)), "a--default", "w")
	}
	h.called(h.must(200, h.do("PATCH", all, wide("a", "widgets", "w")+"/status", `{"status":{"replicas":2}}`, "Content-Type", merge)), "a--default", "w")
	h.called(h.must(200, h.do("GET", all, wide("a", "widgets", "w")+"/status", nil)), "a--default", "w")
	h.called(h.must(200, h.do("PATCH", all, wide("a", "widgets", "w")+"/scale", `{"spec":{"replicas":5}}`, "Content-Type", merge)), "a--default", "w")
	stored := string(h.stored("o/a/example.com/widgets/default/w"))
	if strings.Contains(stored, "a--") || strings.Contains(stored, "orrery.dev/") || !strings.Contains(stored, `"k":"v"`) || !strings.Contains(stored, `"size":"m"`) {
		t.Errorf("stored: %s", stored)
	}
	h.refused(h.do("DELETE", all, wide("a", "widgets", "w"), object{"preconditions": object{"uid": "other"}}), 409, "Conflict", "UID")
	h.must(200, h.do("DELETE", all, wide("a", "widgets", "w"), nil))
	if h.stored("o/a/example.com/widgets/default/w") != nil {
		t.Error("not deleted")
	}
}

// called checks what an object of an answer is called.
func (h *hub) called(a answer, namespace, name string) {
	h.t.Helper()
	if ns, _ := a.field("metadata", "namespace").(string); ns != namespace || a.field("metadata", "name") != name {
		h.t.Errorf("%s %s: is called %v/%v, want %s/%s", a.method, a.path, a.field("metadata", "namespace"), a.field("metadata", "name"), namespace, name)
	}
}

// TestThroughWideNames checks the wide names of cluster-scoped objects, and of their owners.
func TestThroughWideNames(t *testing.T) {
	h := newExportHub(t)
	all := viewPath("", "", key.AllSpaces)
	r := h.must(201, h.do("POST", all, racks, rack("a--r", object{"replicas": 1})))
	h.called(r, "", "a--r")
	generated := rack("", nil)
	generated["metadata"] = object{"generateName": "b--g-"}
	g := h.must(201, h.do("POST", all, racks, generated))
	if name, _ := g.field("metadata", "name").(string); !strings.HasPrefix(name, "b--g-") || h.stored("o/b/example.com/racks/"+strings.TrimPrefix(name, "b--")) == nil {
		t.Errorf("generated: %s", g.raw)
	}
	owned := widget("w", nil)
	owner := object{"apiVersion": "example.com/v1", "kind": "Rack", "name": "a--r", "uid": r.field("metadata", "uid")}
	owned["metadata"].(object)["ownerReferences"] = []any{owner}
	w := h.must(201, h.do("POST", all, wide("a", "widgets", ""), owned))
	if !strings.Contains(string(w.raw), `"a--r"`) || strings.Contains(string(h.stored("o/a/example.com/widgets/default/w")), "a--r") {
		t.Errorf("owned: %s, stored %s", w.raw, h.stored("o/a/example.com/widgets/default/w"))
	}
	h.refused(h.do("POST", all, wide("b", "widgets", ""), owned), 422, "Invalid", "ownerReferences[0].name")
	h.refused(h.do("POST", all, racks, rack("r", nil)), 422, "Invalid", "metadata.name")
	h.refused(h.do("POST", all, racks, rack("u--r", nil)), 404, "NotFound", "u--r")
	h.refused(h.do("POST", all, racks, rack("a--r", nil)), 409, "AlreadyExists", `"a--r"`)
	h.refused(h.do("DELETE", all, racks+"/a--none", nil), 404, "NotFound", `"a--none"`)
	h.must(404, h.do("DELETE", all, racks+"/r", nil))
	h.must(404, h.do("PATCH", all, "/apis/example.com/v1/namespaces/default/widgets/w", `{}`, "Content-Type", merge))
	h.must(200, h.do("DELETE", all, racks+"?fieldSelector=metadata.name=a--r", nil))
	if h.stored("o/a/example.com/racks/r") != nil || h.keys("o/b/example.com/racks/") != 1 {
		t.Error("deleted something else")
	}
	h.must(200, h.do("DELETE", all, racks, nil))
	if h.keys("o/b/example.com/racks/") != 0 {
		t.Error("not deleted in all spaces")
	}
}

// TestThroughApply checks server-side apply, also of an object that was read in the view.
func TestThroughApply(t *testing.T) {
	h := newExportHub(t)
	all := viewPath("", "", key.AllSpaces)
	path := wide("a", "widgets", "w") + "?fieldManager=m"
	body := func(replicas int) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"a--default","annotations":{"orrery.dev/space":"a","orrery.dev/source-name":"w","k":"v"}},"spec":{"replicas":%d}}`, replicas)
	}
	h.called(h.must(201, h.do("PATCH", all, path, body(1), "Content-Type", apply)), "a--default", "w")
	h.must(200, h.do("PATCH", "a", widgets+"/w", `{"spec":{"replicas":3}}`, "Content-Type", merge))
	h.refused(h.do("PATCH", all, path, body(2), "Content-Type", apply), 409, "Conflict", "replicas")
	a := h.must(200, h.do("PATCH", all, path+"&force=true", body(2), "Content-Type", apply))
	if a.field("spec", "replicas") != 2.0 || a.field("metadata", "annotations", "orrery.dev/space") != "a" {
		t.Errorf("applied: %s", a.raw)
	}
	if stored := string(h.stored("o/a/example.com/widgets/default/w")); strings.Contains(stored, "orrery.dev/") || strings.Contains(stored, "a--") {
		t.Errorf("stored: %s", stored)
	}
}

// TestThroughWaits checks writes of a bound kind whose definition has to be restored. They fail by an
// export view as they do in the space: with the reason, and a time to retry.
func TestThroughWaits(t *testing.T) {
	h := newExportHub(t)
	h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": "d"}}))
	h.write("d", key.APIBindings, "e", object{
		"spec": object{"export": object{"space": provider, "name": "e"}},
		"status": object{"resources": []any{object{"group": "example.com", "resource": "racks", "kind": "Former", "listKind": "FormerList", "singular": "former",
			"versions": []string{"v1"}, "storageVersion": "v1"}}},
	})
	h.caughtUp()
	for _, a := range []answer{
		h.do("POST", viewPath("", "", key.AllSpaces), racks, rack("d--r", nil)),
		h.do("POST", viewPath("", "", "d"), racks, rack("r", nil)),
		h.do("PATCH", viewPath("", "", "d"), racks+"/r", `{"spec":{"replicas":1}}`, "Content-Type", merge),
	} {
		h.refused(a, 503, "ServiceUnavailable", `APIBinding "e"`)
		if seconds, _ := a.field("details", "retryAfterSeconds").(float64); seconds == 0 {
			t.Errorf("no time to try again: %s", a.raw)
		}
	}
}

// TestThroughAnotherScope checks kinds that a space has bound with another scope, or in other
// versions, than the provider defines now. Writes by an export view fail with the reason. A deletion
// in all spaces does not skip the space.
func TestThroughAnotherScope(t *testing.T) {
	h := newExportHub(t)
	h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": "d"}}))
	bound := func(resource, kind string, namespaced bool, versions ...string) object {
		return object{"group": "example.com", "resource": resource, "kind": kind, "listKind": kind + "List", "singular": strings.ToLower(kind),
			"namespaced": namespaced, "versions": versions, "storageVersion": versions[0]}
	}
	h.write("d", key.APIBindings, "e", object{
		"spec": object{"export": object{"space": provider, "name": "e"}},
		"status": object{"resources": []any{
			bound("racks", "Rack", true, "v1"), bound("widgets", "Gadget", true, "v0")}},
	})
	h.caughtUp()
	for _, space := range []key.Space{key.AllSpaces, "d"} {
		root, one := viewPath("", "", space), racks+"/r"
		in := widgets
		if space == key.AllSpaces {
			one, in = racks+"/d--r", wide("d", "widgets", "")
		}
		for _, a := range []answer{
			h.do("PATCH", root, one, `{"spec":{"replicas":1}}`, "Content-Type", merge),
			h.do("PATCH", root, one+"/status", `{"status":{}}`, "Content-Type", merge),
			h.do("DELETE", root, one, nil),
			h.do("DELETE", root, racks, nil),
			h.do("POST", root, in, widget("w", nil)),
			h.do("DELETE", root, in+"/w", nil),
		} {
			h.refused(a, 503, "ServiceUnavailable", `APIBinding "e": space "p" now defines `)
			if seconds, _ := a.field("details", "retryAfterSeconds").(float64); seconds == 0 {
				t.Errorf("no time to try again: %s", a.raw)
			}
		}
	}
	h.must(404, h.do("DELETE", viewPath("", "", key.AllSpaces), racks+"/u--r", nil))
}

// TestThroughSlices checks that writes in a slice can't reach other slices, the rest, unclaimed objects
// or spaces without a binding, and can't create or move objects there.
func TestThroughSlices(t *testing.T) {
	h := newExportHub(t)
	x := viewPath("classes", "x", key.AllSpaces)
	a := h.must(201, h.do("POST", x, wide("a", "widgets", ""), widget("mine", object{"secret": "of-mine"})))
	if a.field("spec", "class") != "x" {
		t.Errorf("created in no slice: %s", a.raw)
	}
	h.refused(h.do("POST", x, wide("a", "widgets", ""), widget("w", object{"class": "y"})), 422, "Invalid", "spec.class")
	h.must(201, h.do("POST", "a", widgets, widget("other", object{"class": "y", "secret": "of-other"})))
	h.must(201, h.do("POST", "a", widgets, widget("none", nil)))
	h.must(201, h.do("POST", "u", widgets, widget("mine", object{"class": "x"})))
	for _, name := range []string{"other", "none"} {
		h.foreign(x, wide("a", "widgets", name))
		h.refused(h.do("POST", x, wide("a", "widgets", ""), widget(name, nil)), 403, "Forbidden", name)
		h.refused(h.do("PATCH", x, wide("a", "widgets", name)+"?fieldManager=m&force=true", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"`+name+`"}}`, "Content-Type", apply), 403, "Forbidden", name)
	}
	h.foreign(x, wide("u", "widgets", "mine"))
	h.refused(h.do("PATCH", x, wide("a", "widgets", "mine"), `{"spec":{"class":"y"}}`, "Content-Type", merge), 422, "Invalid", "spec.class")
	rest := viewPath("classes", "", key.AllSpaces)
	h.foreign(rest, wide("a", "widgets", "mine"))
	h.refused(h.do("POST", rest, wide("a", "widgets", ""), widget("w", object{"class": "y"})), 422, "Invalid", "spec.class")
	h.must(201, h.do("POST", rest, wide("a", "widgets", ""), widget("w", nil)))
	h.must(200, h.do("PATCH", rest, wide("a", "widgets", "w"), `{"spec":{"class":"x"}}`, "Content-Type", merge))
	h.foreign(rest, wide("a", "widgets", "w"))
	h.must(200, h.do("DELETE", x, wide("a", "widgets", ""), nil))
	if n := h.keys("o/a/example.com/widgets/"); n != 2 || h.keys("o/u/example.com/widgets/") != 1 {
		t.Errorf("%d widgets are left in a", n)
	}
}

// foreign checks that requests can't change an object outside of the view, and reveal nothing of it.
func (h *hub) foreign(root, path string) {
	h.t.Helper()
	before := h.dump()
	name := path[strings.LastIndex(path, "/")+1:]
	for _, test := range [][3]string{
		{"PATCH", merge, `{"metadata":{"labels":{"k":"v"}}}`},
		{"PATCH", "application/json-patch+json", `[{"op":"test","path":"/spec/replicas","value":7}]`},
		{"PUT", "application/json", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"uid":"no","resourceVersion":"1"}}`, name)},
		{"DELETE", "application/json", ""},
		{"DELETE", "application/json", `{"preconditions":{"uid":"no"}}`},
		{"DELETE", "application/json", `{"dryRun":["All"]}`},
		{"DELETE", "application/json", `{"propagationPolicy":"Foreground"}`},
	} {
		if strings.Contains(path, "/api/v1/") {
			test[2] = strings.ReplaceAll(test[2], "example.com/v1", "v1")
			test[2] = strings.ReplaceAll(test[2], `"Widget"`, `"`+map[bool]string{true: "Secret", false: "ConfigMap"}[strings.Contains(path, "/secrets/")]+`"`)
		}
		h.refused(h.do(test[0], root, path, test[2], "Content-Type", test[1]), 404, "NotFound", name)
		if strings.Contains(path, "widgets") && test[0] == "PATCH" {
			h.must(404, h.do("PATCH", root, path+"/status", test[2], "Content-Type", test[1]))
			h.must(404, h.do("GET", root, path+"/scale", nil))
			h.must(404, h.do("PATCH", root, path+"/scale", `{"spec":{"replicas":1}}`, "Content-Type", merge))
		}
	}
	if after := h.dump(); after != before {
		h.t.Errorf("%s%s changed the log:\n%s", root, path, after)
	}
}

// TestThroughClaims checks that claimed objects can be written as far as the claim allows and the space
// has accepted. In slices, this includes objects with owners, references or labels of the slice.
func TestThroughClaims(t *testing.T) {
	h := newExportHub(t)
	all, x, gold := viewPath("", "", key.AllSpaces), viewPath("classes", "x", key.AllSpaces), viewPath("tiers", "gold", key.AllSpaces)
	secret := func(name string) object {
		return object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name}}
	}
	h.must(201, h.do("POST", all, wide("a", "secrets", ""), secret("s")))
	h.refused(h.do("POST", all, wide("b", "secrets", ""), secret("s")), 403, "Forbidden", `space "b" has not accepted`)
	h.must(404, h.do("POST", all, wide("u", "secrets", ""), secret("s")))
	h.refused(h.do("POST", all, wide("a", "configmaps", ""), configMap("c", nil)), 422, "Invalid", "metadata.labels")
	h.must(201, h.do("POST", all, wide("a", "configmaps", ""), labeled(configMap("c", nil), object{"use": "e"})))
	h.refused(h.do("PATCH", all, wide("a", "configmaps", "c"), `{"metadata":{"labels":null}}`, "Content-Type", merge), 422, "Invalid", "metadata.labels")
	h.must(201, h.do("POST", "a", configMaps, configMap("own", nil)))
	h.foreign(all, wide("a", "configmaps", "own"))

	w := h.must(201, h.do("POST", "a", widgets, widget("w", object{"class": "x", "secret": "of-w"})))
	h.refused(h.do("POST", x, wide("a", "secrets", ""), secret("t")), 422, "Invalid", "metadata.ownerReferences")
	h.must(201, h.do("POST", x, wide("a", "secrets", ""), secret("of-w")))
	owned := secret("t")
	owned["metadata"].(object)["ownerReferences"] = []any{object{"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": w.field("metadata", "uid")}}
	h.must(201, h.do("POST", x, wide("a", "secrets", ""), owned))
	h.refused(h.do("PATCH", x, wide("a", "secrets", "t"), `{"metadata":{"ownerReferences":null}}`, "Content-Type", merge), 422, "Invalid", "metadata.ownerReferences")
	h.foreign(x, wide("a", "secrets", "s"))
	h.foreign(viewPath("classes", "y", key.AllSpaces), wide("a", "secrets", "t"))

	a := h.must(201, h.do("POST", gold, wide("a", "secrets", ""), secret("g")))
	if a.field("metadata", "labels", "tier") != "gold" {
		t.Errorf("created in no slice: %s", a.raw)
	}
	h.refused(h.do("PATCH", gold, wide("a", "secrets", "g"), `{"metadata":{"labels":{"tier":"silver"}}}`, "Content-Type", merge), 422, "Invalid", "metadata.labels[tier]")
	h.refused(h.do("POST", gold, wide("a", "secrets", ""), labeled(secret("z"), object{"tier": "silver"})), 422, "Invalid", "metadata.labels[tier]")
	h.must(200, h.do("DELETE", gold, wide("a", "secrets", ""), nil))
	if h.stored("o/a/core/secrets/default/g") != nil || h.keys("o/a/core/secrets/") != 3 {
		t.Error("deleted something else")
	}
}

// TestThroughOneSpace checks that the view of one space uses the names of that space, and does not
// reach other spaces.
func TestThroughOneSpace(t *testing.T) {
	h := newExportHub(t)
	one := viewPath("classes", "x", "a")
	a := h.must(201, h.do("POST", one, widgets, widget("w", nil)))
	h.called(a, "default", "w")
	if a.field("metadata", "annotations") != nil || a.field("spec", "class") != "x" {
		t.Errorf("created: %s", a.raw)
	}
	h.must(200, h.do("PATCH", one, widgets+"/w/status", `{"status":{"replicas":2}}`, "Content-Type", merge))
	h.must(201, h.do("POST", one, racks, rack("r", nil)))
	h.must(404, h.do("DELETE", one, racks+"/a--r", nil))
	h.must(404, h.do("POST", one, wide("b", "widgets", ""), widget("w", nil)))
	h.must(404, h.do("POST", viewPath("classes", "x", "u"), widgets, widget("w", nil)))
	h.must(200, h.do("DELETE", one, racks, nil))
	h.must(200, h.do("DELETE", one, widgets+"/w", nil))
}

// TestThroughWritesNothing checks that an object that is read in all spaces and sent back writes
// nothing, nor does an empty patch or apply.
func TestThroughWritesNothing(t *testing.T) {
	h := newExportHub(t)
	all := viewPath("", "", key.AllSpaces)
	owner := h.must(201, h.do("POST", "a", racks, rack("r", nil)))
	refs := []any{object{"apiVersion": "example.com/v1", "kind": "Rack", "name": "r", "uid": owner.field("metadata", "uid")}}
	plain, owned := widget("plain", nil), widget("owned", nil)
	owned["metadata"].(object)["ownerReferences"] = refs
	for _, w := range []object{plain, owned} {
		h.must(201, h.do("POST", "a", widgets, w))
		name := w["metadata"].(object)["name"].(string)
		path, stored := wide("a", "widgets", name), "o/a/example.com/widgets/default/"+name
		before := string(h.stored(stored))
		read := h.must(200, h.do("GET", all, path+"/status", nil))
		for _, write := range []func() answer{
			func() answer { return h.do("PATCH", all, path, `{}`, "Content-Type", merge) },
			func() answer { return h.do("PUT", all, path, read.body) },
			func() answer { return h.do("PUT", all, path+"/status", read.body) },
			func() answer {
				return h.do("PATCH", all, path, `{"metadata":{"annotations":{"orrery.dev/space":"b"}}}`, "Content-Type", merge)
			},
		} {
			a := h.must(200, write())
			if now := string(h.stored(stored)); now != before {
				t.Fatalf("%s %s: was\n%s and is\n%s", a.method, a.path, before, now)
			}
		}
	}
	h.must(201, h.do("POST", "a", configMaps, labeled(configMap("c", object{"k": "v"}), object{"use": "e"})))
	before := string(h.stored("o/a/core/configmaps/default/c"))
	h.must(200, h.do("PATCH", all, wide("a", "configmaps", "c"), `{}`, "Content-Type", merge))
	h.must(200, h.do("PATCH", all, wide("a", "configmaps", "c"), `{"data":{"k":"v"}}`, "Content-Type", "application/strategic-merge-patch+json"))
	if now := string(h.stored("o/a/core/configmaps/default/c")); now != before {
		t.Errorf("it was\n%s and is\n%s", before, now)
	}
}
