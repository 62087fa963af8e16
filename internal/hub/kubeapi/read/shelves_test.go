package read

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// offered are what space p offers, the slices of it, and the spaces that have bound it.
func offered() []sample {
	all := []sample{
		{gvr: exports, space: "p", name: "e", content: map[string]any{"spec": map[string]any{
			"resources": []any{map[string]any{"group": "example.com", "resource": "widgets"}},
			"claims":    []any{map[string]any{"resource": "configmaps", "verbs": []any{"*"}}, map[string]any{"resource": "namespaces", "verbs": []any{"*"}}},
		}}},
		{gvr: exportViews, space: "p", name: "v", content: map[string]any{"spec": map[string]any{"export": "e", "split": map[string]any{"label": "app"}}}},
	}
	for _, s := range []key.Space{"a", "a-b", "ab"} {
		all = append(all, sample{gvr: bindings, space: s, name: "e", content: map[string]any{"spec": map[string]any{"export": map[string]any{"space": "p", "name": "e"}}}})
	}
	return all
}

// wholeShelf is all of the export, and sliceOf a slice of it.
func wholeShelf() key.Shelf { return key.Shelf{Space: "p", Name: "e"} }
func sliceOf(value string) key.Shelf {
	return key.Shelf{Space: "p", Name: "v", View: true, Value: value}
}

func onShelf(f key.Shelf, s key.Space, judged int64) Lens {
	return Shelf(OnShelf{Shelf: f, Space: s, Judged: judged, Clustered: []schema.GroupKind{{Kind: "Namespace"}}})
}

// shelvesKey has the row that names what is not there: spaces that have not bound the export,
// and values that have no slice.
const shelvesKey = "m/shelves"

// byApp is an Exposer by the label "app", for the spaces that have bound the export. It computes
// everything anew each time.
type byApp struct{ on map[string]*shelves }

// onShelves has a fixture show what is on shelves.
func onShelves(_ *Config, tc *table.Config) { tc.Exposer = &byApp{} }

type shelves struct{ all []key.Shelf }

func (s *shelves) ExportViews() []key.Shelf { return s.all }

func (d *byApp) Reset() { d.on = nil }

func (d *byApp) Expose(state table.Reader, changes []table.Change) (shown []table.Exposed) {
	values := map[string][]byte{}
	for _, prefix := range []string{"o/", shelvesKey} {
		state.Ascend(prefix, func(row *table.Row) bool {
			values[row.Key] = row.Value
			return true
		})
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Row().Key] = true
	}
	on := shelveAll(values)
	for k := range values {
		is, was := on[k], d.on[k]
		if is != nil && was != nil && is.all[1] == was.all[1] {
			on[k] = was
			is = was
		}
		switch {
		case is != nil && (changed[k] || is != was):
			shown = append(shown, table.Exposed{Key: k, Exposure: is})
		case is == nil && was != nil:
			shown = append(shown, table.Exposed{Key: k})
		}
	}
	d.on = on
	return shown
}

// shelveAll is on which shelves the objects of a state are.
func shelveAll(values map[string][]byte) map[string]*shelves {
	not := strings.Fields(string(values[shelvesKey]))
	without := func(name string) bool { return slices.Contains(not, name) }
	on := map[string]*shelves{}
	for k, value := range values {
		s, r, _, ok := key.Split(k)
		if !ok || s != "a" && s != "a-b" && s != "ab" || without(string(s)) || r.Group == v1alpha1.Group {
			continue
		}
		app := gjson.GetBytes(value, "metadata.labels.app").String()
		if without(app) {
			app = ""
		}
		on[k] = &shelves{[]key.Shelf{wholeShelf(), sliceOf(app)}}
	}
	return on
}

// shelved is an object as the model says that a shelf shows it; ok is false if it does not.
func shelved(values map[string][]byte, k string, l shelfLens) (object, place string, ok bool) {
	on := shelveAll(values)[k]
	o, err := key.ParseObject(k)
	if err != nil || on == nil || on.all[0] != l.Shelf && on.all[1] != l.Shelf || l.Space != "" && l.Space != o.Space {
		return "", "", false
	}
	if l.Space != "" {
		return strings.TrimSpace(string(values[k])), o.Path(), true
	}
	var whole map[string]any
	if err := json.Unmarshal(values[k], &whole); err != nil {
		panic(err)
	}
	metadata, at := whole["metadata"].(map[string]any), map[string]any{"orrery.dev/space": string(o.Space), "orrery.dev/source-name": o.Name}
	metadata["name"] = string(o.Space) + "--" + o.Name
	if o.Namespace != "" {
		metadata["name"], metadata["namespace"], at["orrery.dev/source-namespace"] = o.Name, string(o.Space)+"--"+o.Namespace, o.Namespace
	}
	metadata["annotations"] = at
	return compact(whole), o.Path(), true
}
