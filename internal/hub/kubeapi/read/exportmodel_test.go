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

// offered returns the APIExport of space p, its APIExportView, and the APIBindings of consumers.
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

// wholeView is the view of the whole export, and sliceOf that of a slice.
func wholeView() key.ExportView { return key.ExportView{Space: "p", Name: "e"} }
func sliceOf(value string) key.ExportView {
	return key.ExportView{Space: "p", Name: "v", View: true, Value: value}
}

func viewOf(id key.ExportView, s key.Space, decidedAt int64) Lens {
	return ExportView(ExportViewScope{ID: id, Space: s, DecidedAt: decidedAt, Clustered: []schema.GroupKind{{Kind: "Namespace"}}})
}

// withoutViewKey is the key of the row with the spaces that have not bound the export, and the
// values that have no slice.
const withoutViewKey = "m/shelves"

// byApp is an Exposer by the label "app", for the spaces that have bound the export. It recomputes
// everything each time.
type byApp struct{ exposed map[string]*exposure }

// withExportViews configures a fixture with export views.
func withExportViews(_ *Config, tc *table.Config) { tc.Exposer = &byApp{} }

type exposure struct{ all []key.ExportView }

func (e *exposure) ExportViews() []key.ExportView { return e.all }

func (d *byApp) Reset() { d.exposed = nil }

func (d *byApp) Expose(state table.Reader, changes []table.Change) (shown []table.Exposed) {
	values := map[string][]byte{}
	for _, prefix := range []string{"o/", withoutViewKey} {
		state.Ascend(prefix, func(row *table.Row) bool {
			values[row.Key] = row.Value
			return true
		})
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Row().Key] = true
	}
	exposed := exposeAll(values)
	for k := range values {
		is, previous := exposed[k], d.exposed[k]
		if is != nil && previous != nil && is.all[1] == previous.all[1] {
			exposed[k] = previous
			is = previous
		}
		switch {
		case is != nil && (changed[k] || is != previous):
			shown = append(shown, table.Exposed{Key: k, Exposure: is})
		case is == nil && previous != nil:
			shown = append(shown, table.Exposed{Key: k})
		}
	}
	d.exposed = exposed
	return shown
}

// exposeAll returns the export views of the objects of a state.
func exposeAll(values map[string][]byte) map[string]*exposure {
	not := strings.Fields(string(values[withoutViewKey]))
	without := func(name string) bool { return slices.Contains(not, name) }
	exposed := map[string]*exposure{}
	for k, value := range values {
		s, r, _, ok := key.Split(k)
		if !ok || s != "a" && s != "a-b" && s != "ab" || without(string(s)) || r.Group == v1alpha1.Group {
			continue
		}
		app := gjson.GetBytes(value, "metadata.labels.app").String()
		if without(app) {
			app = ""
		}
		exposed[k] = &exposure{[]key.ExportView{wholeView(), sliceOf(app)}}
	}
	return exposed
}

// inExportView returns an object as the model expects it in an export view; ok is false if the view
// must not contain it.
func inExportView(values map[string][]byte, k string, l exportLens) (object, place string, ok bool) {
	exposed := exposeAll(values)[k]
	o, err := key.ParseObject(k)
	if err != nil || exposed == nil || exposed.all[0] != l.ID && exposed.all[1] != l.ID || l.Space != "" && l.Space != o.Space {
		return "", "", false
	}
	if l.Space != "" {
		return strings.TrimSpace(string(values[k])), o.Path(), true
	}
	var whole map[string]any
	if err := json.Unmarshal(values[k], &whole); err != nil {
		panic(err)
	}
	metadata, annotations := whole["metadata"].(map[string]any), map[string]any{"orrery.dev/space": string(o.Space), "orrery.dev/source-name": o.Name}
	metadata["name"] = string(o.Space) + "--" + o.Name
	if o.Namespace != "" {
		metadata["name"], metadata["namespace"], annotations["orrery.dev/source-namespace"] = o.Name, string(o.Space)+"--"+o.Namespace, o.Namespace
	}
	metadata["annotations"] = annotations
	return compact(whole), o.Path(), true
}
