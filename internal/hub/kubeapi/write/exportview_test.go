package write_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	secrets  = "/api/v1/namespaces/default/secrets"
	provider = key.Space("p")
	merge    = "application/merge-patch+json"
	apply    = "application/apply-patch+yaml"
)

// sliced is the definition of widgets that have a class, and of racks, which are in no namespace.
func sliced(plural, kind, scope string) object {
	c := crd(plural, kind, widgetSpec(object{"class": object{"type": "string"}, "secret": object{"type": "string"}}))
	c["spec"].(object)["scope"] = scope
	return c
}

// newExportHub returns a hub where the spaces a and b have bound what p exports: widgets and racks,
// ConfigMaps with the label use=e and Secrets, of which b has accepted only the ConfigMaps,
// and u has bound nothing. The view classes slices by a field, tiers by a label.
func newExportHub(t *testing.T) *hub {
	h := newHub(t)
	for _, s := range []string{"p", "u"} {
		h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": s}}))
	}
	exported := []any{object{"group": "example.com", "resource": "widgets"}, object{"group": "example.com", "resource": "racks"}}
	claims := []any{
		object{"group": "", "resource": "configmaps", "verbs": []string{"*"}, "selector": object{"matchLabels": object{"use": "e"}}},
		object{"group": "", "resource": "secrets", "verbs": []string{"get", "create", "update", "patch", "delete", "deletecollection"},
			"referredBy": []any{object{"group": "example.com", "resource": "widgets", "path": ".spec.secret"}}},
	}
	for _, s := range []string{"p", "u"} {
		h.must(201, h.do("POST", s, crds, sliced("widgets", "Widget", "Namespaced")))
		h.must(201, h.do("POST", s, crds, sliced("racks", "Rack", "Cluster")))
	}
	h.write(provider, key.APIExports, "e", object{"spec": object{"resources": exported, "claims": claims}})
	h.write(provider, key.APIExportViews, "classes", object{"spec": object{"export": "e", "split": object{"field": ".spec.class"}}})
	h.write(provider, key.APIExportViews, "tiers", object{"spec": object{"export": "e", "split": object{"label": "tier"}, "values": []string{"gold", "silver"}}})
	h.bind("a", claims...)
	h.bind("b", claims[0])
	h.caughtUp()
	return h
}

// bind makes a binding to the export with some of its claims.
func (h *hub) bind(s key.Space, claims ...any) {
	h.t.Helper()
	for _, c := range []object{sliced("widgets", "Widget", "Namespaced"), sliced("racks", "Rack", "Cluster")} {
		h.must(201, h.do("POST", string(s), crds, c))
	}
	bound := func(resource, kind string, namespaced bool) object {
		return object{"group": "example.com", "resource": resource, "kind": kind, "listKind": kind + "List", "singular": resource[:len(resource)-1],
			"namespaced": namespaced, "versions": []string{"v1", "v2"}, "storageVersion": "v1"}
	}
	var decisions []any
	for _, c := range claims {
		decisions = append(decisions, object{"group": "", "resource": c.(object)["resource"], "state": "Accepted"})
	}
	h.write(s, key.APIBindings, "e", object{
		"spec":   object{"export": object{"space": provider, "name": "e"}, "claims": decisions},
		"status": object{"resources": []any{bound("widgets", "Widget", true), bound("racks", "Rack", false)}, "claims": claims},
	})
}

// write writes an object of Orrery's kinds as the hub does.
func (h *hub) write(s key.Space, r key.Resource, name string, content object) {
	h.t.Helper()
	kinds := map[key.Resource]string{key.APIExports: "APIExport", key.APIExportViews: "APIExportView", key.APIBindings: "APIBinding"}
	o := object{"apiVersion": "orrery.dev/v1alpha1", "kind": kinds[r], "metadata": object{"name": name, "uid": string(s) + name}}
	maps.Copy(o, content)
	value, err := json.Marshal(o)
	if err != nil {
		h.t.Fatal(err)
	}
	k := key.Object{Space: s, Identity: key.Identity{Resource: r, Name: name}}.Key()
	if _, err := h.client.Client.Put(h.ctx, prefix+k, string(value)); err != nil {
		h.t.Fatal(err)
	}
}

// viewPath returns the path of an export view, or of the whole export, for a space.
func viewPath(view, value string, s key.Space) string {
	f := key.ExportView{Space: provider, Name: "e"}
	if view != "" {
		f = key.ExportView{Space: provider, Name: view, View: true, Value: value}
	}
	return route.ExportViewRoot(f, s).String()
}

func rack(name string, spec object) object {
	return object{"apiVersion": "example.com/v1", "kind": "Rack", "metadata": object{"name": name}, "spec": spec}
}

func labeled(o object, labels object) object {
	o["metadata"].(object)["labels"] = labels
	return o
}

// TestValuesStay checks that the value by which an object is sliced can be set once, by any user. It
// can't be changed or removed until the object is deleted; other fields can.
func TestValuesStay(t *testing.T) {
	h := newExportHub(t)
	const path = widgets + "/w"
	h.must(201, h.do("POST", "a", widgets, widget("w", object{"replicas": 1})))
	patch := func(body string) answer { return h.do("PATCH", "a", path, body, "Content-Type", merge) }
	h.must(200, patch(`{"spec":{"class":""}}`))
	set := h.must(200, patch(`{"spec":{"class":"x"},"metadata":{"labels":{"tier":"iron"}}}`))
	for name, change := range seeds.Ordered(map[string]struct {
		method, path, body, kind string
		fragment                 string
	}{
		"patch":    {"PATCH", path, `{"spec":{"class":"y"}}`, merge, "spec.class"},
		"removal":  {"PATCH", path, `{"spec":{"class":null}}`, merge, `APIExportView "classes" of space "p"`},
		"emptying": {"PATCH", path, `{"spec":{"class":""}}`, merge, `"x"`},
		"label":    {"PATCH", path, `{"metadata":{"labels":{"tier":"gold"}}}`, merge, "metadata.labels[tier]"},
		"update":   {"PUT", path, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":%q},"spec":{}}`, set.field("metadata", "resourceVersion")), "application/json", "spec.class"},
		"apply":    {"PATCH", path + "?fieldManager=m&force=true", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"class":"y"}}`, apply, "spec.class"},
	}) {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.refused(h.do(change.method, "a", change.path, change.body, "Content-Type", change.kind), 422, "Invalid", change.fragment)
		})
	}
	h.t = t
	h.must(200, patch(`{"spec":{"replicas":3,"class":"x"},"metadata":{"labels":{"other":"1"},"finalizers":["example.com/wait"]}}`))
	h.must(200, h.do("PATCH", "a", path+"/scale", `{"spec":{"replicas":4}}`, "Content-Type", merge))
	h.must(200, h.do("DELETE", "a", path, nil))
	h.refused(patch(`{"spec":{"class":"y"},"metadata":{"finalizers":null}}`), 422, "Invalid", "spec.class")
	h.must(200, patch(`{"metadata":{"finalizers":null}}`))
	h.must(201, h.do("POST", "a", widgets, widget("w", object{"class": "y"})))
	h.must(201, h.do("POST", "u", widgets, widget("w", object{"class": "y"})))
	h.must(200, h.do("PATCH", "u", path, `{"spec":{"class":"z"}}`, "Content-Type", merge))
}

// TestValuesOfClaimedObjects checks that a claimed object keeps the label by which it is sliced, and that
// its space can remove it from the claim together with the label.
func TestValuesOfClaimedObjects(t *testing.T) {
	h := newExportHub(t)
	for _, s := range []string{"a", "u"} {
		h.must(201, h.do("POST", s, configMaps, labeled(configMap("c", nil), object{"use": "e", "tier": "gold"})))
	}
	h.must(201, h.do("POST", "a", configMaps, labeled(configMap("other", nil), object{"tier": "gold"})))
	patch := func(s, name, body string) answer {
		return h.do("PATCH", s, configMaps+"/"+name, body, "Content-Type", merge)
	}
	h.refused(patch("a", "c", `{"metadata":{"labels":{"tier":"silver"}}}`), 422, "Invalid", "metadata.labels[tier]")
	h.refused(patch("a", "c", `{"metadata":{"labels":{"tier":null}}}`), 422, "Invalid", "metadata.labels[tier]")
	h.must(200, patch("u", "c", `{"metadata":{"labels":{"tier":"silver"}}}`))
	h.must(200, patch("a", "other", `{"metadata":{"labels":{"tier":"silver"}}}`))
	h.must(200, patch("a", "c", `{"metadata":{"labels":{"tier":"silver","use":"me"}}}`))
	h.must(200, patch("a", "c", `{"metadata":{"labels":{"use":"e"}}}`))
	h.refused(patch("a", "c", `{"metadata":{"labels":{"tier":"gold"}}}`), 422, "Invalid", "silver")
}

// TestValuesOutlastTheirField checks that writes by a version without the field keep the value by
// which an object is sliced, even if no version has the field, and while finalizers keep the object.
func TestValuesOutlastTheirField(t *testing.T) {
	for version, without := range map[string][]int{"v2": {1}, "v1": {0, 1}} {
		t.Run(version, func(t *testing.T) {
			h := newExportHub(t)
			h.must(201, h.do("POST", "a", widgets, widget("w", object{"class": "x"})))
			definition := sliced("widgets", "Widget", "Namespaced")["spec"].(object)
			for _, i := range without {
				definition["versions"].([]any)[i].(object)["schema"] = schemaOf(object{
					"spec": widgetSpec(object{"secret": object{"type": "string"}}), "status": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
			}
			h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com", object{"spec": definition}, "Content-Type", merge))
			h.caughtUp()
			path := strings.Replace(widgets, "/v1/", "/"+version+"/", 1) + "/w"
			generation := 0.0
			for _, root := range []string{"a", viewPath("classes", "x", "a")} {
				for _, write := range [][3]string{
					{"PATCH", path, `{"spec":{"replicas":3}}`},
					{"PATCH", path, `{"metadata":{"labels":{"k":"` + strconv.Itoa(len(root)) + `"},"finalizers":["example.com/wait"]}}`},
					{"PATCH", path + "/status", `{"status":{"replicas":3}}`},
					{"PATCH", path + "/scale", `{"spec":{"replicas":3}}`},
				} {
					a := h.must(200, h.do(write[0], root, write[1], write[2], "Content-Type", merge))
					if g, ok := a.field("metadata", "generation").(float64); ok && generation == 0 {
						generation = g
					} else if ok && g != generation {
						t.Errorf("%s is generation %v, want %v", write[2], g, generation)
					}
					h.slicedBy(write[1]+" "+write[2], "x", "o/a/example.com/widgets/default/w")
				}
			}
			if version == "v1" { // the other is stored as this
				other := strings.Replace(path, "/v1/", "/v2/", 1)
				h.refused(h.do("PATCH", "a", other, `{"spec":{"replicas":5}}`, "Content-Type", merge), 403, "Forbidden", "as v1 alone")
				h.refused(h.do("DELETE", "a", other, nil), 403, "Forbidden", "as v1 alone")
			}
			h.must(200, h.do("DELETE", "a", path, nil))
			h.slicedBy("DELETE", "x", "o/a/example.com/widgets/default/w")
			h.must(200, h.do("PATCH", viewPath("classes", "x", "a"), path, `{"metadata":{"finalizers":null}}`, "Content-Type", merge))
			if h.stored("o/a/example.com/widgets/default/w") != nil {
				t.Error("it is not gone")
			}
		})
	}
}

// slicedBy checks the class of the stored object.
func (h *hub) slicedBy(after, class, key string) {
	h.t.Helper()
	if stored := string(h.stored(key)); !strings.Contains(stored, `"class":"`+class+`"`) {
		h.t.Errorf("stored after %s: %s", after, stored)
	}
}
