package exports_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// world is a table with an engine.
type world struct {
	testing.TB
	engine *exports.Engine
	table  *table.Writer
	rev    int64
}

func newWorld(t *testing.T) *world {
	w := &world{TB: t}
	w.begin()
	return w
}

func (w *world) begin() {
	w.engine = exports.New()
	w.table = table.New(table.Config{Exposer: w.engine, WindowSteps: 100, WindowBytes: 1 << 20})
}

// put writes an object, which is the JSON of a path and what it has: fields of maps.
func (w *world) put(path string, object map[string]any) {
	w.Helper()
	value, err := json.Marshal(object)
	if err != nil {
		w.Fatal(err)
	}
	w.apply(table.Update{Key: key.OfPath(path), Value: value, CreateRev: w.rev + 1, ModRev: w.rev + 1})
}

func (w *world) remove(path string) { w.Helper(); w.apply(table.Update{Key: key.OfPath(path)}) }

func (w *world) apply(all ...table.Update) {
	w.Helper()
	w.rev++
	if err := w.table.Apply(w.rev, all); err != nil {
		w.Fatal(err)
	}
}

// shownIn returns the export views of an object, by its row and by the index.
func (w *world) shownIn(path string) string {
	w.Helper()
	row, _ := w.table.Get(key.OfPath(path))
	var all []string
	if row != nil && row.Exposure != nil {
		for _, f := range row.Exposure.ExportViews() {
			all = append(all, f.String())
			var found bool
			w.table.AscendExportView(f, "", func(r *table.Row) (string, bool) { found = found || r == row; return "", true })
			if !found {
				w.Errorf("%s is not found on %s", path, f)
			}
		}
	}
	return strings.Join(all, " ")
}

func (w *world) wantOn(path string, want ...string) {
	w.Helper()
	if got := w.shownIn(path); got != strings.Join(want, " ") {
		w.Errorf("%s is on %q, want %q", path, got, want)
	}
}

type object = map[string]any

func named(kind string, more object) object {
	all := object{"kind": kind, "metadata": object{"uid": kind}}
	maps.Copy(all, more)
	return all
}

// provide makes a provider's space, an export of widgets that claims Secrets, and a space
// that has bound it and accepts that.
func (w *world) provide() {
	w.put("root/orrery.dev/spaces/p", object{"metadata": object{"uid": "p1"}})
	w.put("p/orrery.dev/apiexports/e", named("APIExport", object{"spec": object{
		"resources": []any{widgets},
		"claims": []any{object{
			"group": "", "resource": "secrets", "verbs": []any{"get", "list"}, "selector": object{"matchLabels": object{"shown": "yes"}},
			"referredBy": []any{object{"group": "example.com", "resource": "widgets", "path": ".spec.secret"}},
		}},
	}}))
	w.put("c/orrery.dev/apibindings/b", bindingOf("Accepted"))
}

var widgets = object{"group": "example.com", "resource": "widgets"}

func bindingOf(state string) object {
	return named("APIBinding", object{
		"spec": object{"export": object{"space": "p", "name": "e"}, "claims": []any{object{"group": "", "resource": "secrets", "state": state}}},
		"status": object{
			"spaceUID":  "p1",
			"resources": []any{object{"group": "example.com", "resource": "widgets", "kind": "Widget", "namespaced": true}},
			"claims": []any{object{
				"group": "", "resource": "secrets", "verbs": []any{"*"},
				"referredBy": []any{object{"group": "example.com", "resource": "widgets", "path": ".spec.secret"}},
			}},
		},
	})
}

func viewBy(split, name string, values ...string) object {
	spec := object{"export": "e", "split": object{split: name}}
	if len(values) > 0 {
		spec["values"] = values
	}
	return named("APIExportView", object{"spec": spec})
}

func widget(uid, class, secret string) object {
	spec := object{}
	if class != "" {
		spec["class"] = class
	}
	if secret != "" {
		spec["secret"] = secret
	}
	return object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"uid": uid, "labels": object{"class": class}}, "spec": spec}
}

func secret(class string, owners ...string) object {
	labels := object{"shown": "yes"}
	if class != "" {
		labels["class"] = class
	}
	var refs []any
	for _, o := range owners {
		name, uid, _ := strings.Cut(o, "@")
		refs = append(refs, object{"apiVersion": "example.com/v1", "kind": "Widget", "name": name, "uid": uid})
	}
	return object{"metadata": object{"uid": "s", "labels": labels, "ownerReferences": refs}}
}

const (
	widgetW = "c/example.com/widgets/n/w"
	widgetX = "c/example.com/widgets/n/x"
	secretS = "c/core/secrets/n/s"
	all     = "e/p/e"
)

func TestBoundObjectsAreInSlices(t *testing.T) {
	w := newWorld(t)
	w.put(widgetW, widget("w1", "a", ""))
	w.wantOn(widgetW)
	w.provide()
	w.wantOn(widgetW, all)
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	w.wantOn(widgetW, all, "v/p/v/a")
	w.put(widgetW, widget("w1", "", ""))
	w.wantOn(widgetW, all, "v/p/v/")
	w.put("p/orrery.dev/apiexportviews/l", viewBy("label", "class", "b", "c"))
	w.put(widgetW, widget("w1", "c", ""))
	w.wantOn(widgetW, all, "v/p/l/c", "v/p/v/c")
	w.put(widgetW, widget("w1", "d", ""))
	w.wantOn(widgetW, all, "v/p/l/", "v/p/v/d")
	w.put(widgetW, widget("w1", "not/legal", ""))
	w.wantOn(widgetW, all, "v/p/l/", "v/p/v/")
	w.remove("p/orrery.dev/apiexportviews/v")
	w.wantOn(widgetW, all, "v/p/l/")
	w.put("root/orrery.dev/spaces/p", object{"metadata": object{"uid": "p2"}})
	w.wantOn(widgetW)
	w.put("root/orrery.dev/spaces/p", object{"metadata": object{"uid": "p1"}})
	w.wantOn(widgetW, all, "v/p/l/")
	w.remove("c/orrery.dev/apibindings/b")
	w.wantOn(widgetW)
}

func TestClaimedObjectsFollow(t *testing.T) {
	w := newWorld(t)
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	w.put(secretS, secret("z"))
	w.wantOn(secretS, all, "v/p/v/")
	w.put(widgetW, widget("w1", "a", "s"))
	w.wantOn(secretS, all, "v/p/v/a")
	w.put(widgetX, widget("x1", "b", ""))
	w.put(secretS, secret("", "x@x1"))
	w.wantOn(secretS, all, "v/p/v/b")
	w.put(widgetX, widget("x1", "", ""))
	w.wantOn(secretS, all, "v/p/v/")
	w.put(widgetX, widget("x2", "b", ""))
	w.wantOn(secretS, all, "v/p/v/a")
	w.put(widgetX, widget("x1", "c", "s"))
	w.wantOn(secretS, all, "v/p/v/c")
	w.remove(widgetX)
	w.put(widgetW, widget("w1", "a", "other"))
	w.wantOn(secretS, all, "v/p/v/")
	w.put("p/orrery.dev/apiexportviews/l", viewBy("label", "class"))
	w.wantOn(secretS, all, "v/p/l/", "v/p/v/")
	w.put(secretS, secret("z"))
	w.wantOn(secretS, all, "v/p/l/z", "v/p/v/")
	w.put(secretS, object{"metadata": object{"uid": "s"}})
	w.wantOn(secretS)
	w.put(secretS, secret("z"))
	w.put("c/orrery.dev/apibindings/b", bindingOf("Rejected"))
	w.wantOn(secretS)
}

func TestQuestions(t *testing.T) {
	w := newWorld(t)
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	w.put("p/orrery.dev/apiexportviews/l", viewBy("label", "class", "b"))
	export, slice := key.ExportView{Space: "p", Name: "e"}, key.ExportView{Space: "p", Name: "l", View: true, Value: "b"}
	widgets, secrets := key.NewResource("example.com", "widgets"), key.Secrets
	keys := func(r key.Resource) (all []string) {
		for _, k := range w.engine.Keys("c", r) {
			all = append(all, fmt.Sprintf("%s %s%s %v", k.ExportView("b"), k.Split.Label, k.Split.Field, k.Claim != nil))
		}
		return all
	}
	for what, is := range map[string]bool{
		"bindings":          slices.Equal(w.engine.Bindings("p", "e"), []key.Space{"c"}),
		"binding to":        slices.Equal(w.engine.BindingTo("p"), []key.Space{"c"}) && w.engine.BindingTo("c") == nil,
		"bound":             w.engine.Bound(slice, "c"),
		"another space":     !w.engine.Bound(slice, "d"),
		"keys":              slices.Equal(keys(widgets), []string{"v/p/l/b class false", "v/p/v/b .spec.class false"}),
		"keys of claimed":   slices.Equal(keys(secrets), []string{"v/p/l/b class true"}),
		"keys elsewhere":    w.engine.Keys("d", widgets) == nil,
		"exported":          w.engine.Allowed(slice, "c", widgets, "delete"),
		"claimed":           w.engine.Allowed(export, "c", secrets, "list"),
		"more than claimed": !w.engine.Allowed(export, "c", secrets, "delete"),
		"in all":            w.engine.Allowed(export, key.AllSpaces, secrets, "get") && !w.engine.Allowed(export, key.AllSpaces, secrets, "update"),
		"not exported":      !w.engine.Allowed(export, "c", key.ConfigMaps, "get"),
	} {
		if !is {
			t.Errorf("%s: not so; keys are %q, %q", what, keys(widgets), keys(secrets))
		}
	}
	for view, want := range map[key.ExportView]bool{
		export: true, slice: true, {Space: "p", Name: "l", View: true, Value: "c"}: false, {Space: "p", Name: "l", View: true}: true,
		{Space: "p", Name: "v", View: true, Value: "c"}: true, {Space: "p", Name: "v", View: true, Value: "-"}: false, {Space: "p", Name: "w", View: true}: false,
	} {
		if _, _, ok := w.engine.Resources(view); ok != want {
			t.Errorf("%s is served: %v, want %v", view, ok, want)
		}
	}
}
