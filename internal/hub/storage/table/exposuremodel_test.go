package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
)

// exposurePolicyKey is the key of an object whose names are export views of all objects.
const exposurePolicyKey = "o/s2/core/configmaps/default/a"

// modelViews are all export views of the tests, by the names in values.
var modelViews = map[string]key.ExportView{
	"l1": {Space: "p", Name: "e"},
	"l2": {Space: "p", Name: "v", View: true, Value: "a"},
	"l3": {Space: "p", Name: "v", View: true},
}

// viewsOf returns the export views of an object by the rule of the tests: those of the names in its
// value, and those of the names in the policy.
func viewsOf(k, value, policy string) string {
	if !strings.HasPrefix(k, "o/") || modelWindow(k) != objectWindow {
		return ""
	}
	var all []string
	for _, name := range slices.Concat(namesOf(value), namesOf(policy)) {
		all = append(all, modelViews[name].String())
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// exposure is an Exposure that testExposer interns.
type exposure []key.ExportView

func (e *exposure) ExportViews() []key.ExportView { return *e }

// testExposer recomputes all exposures at each call.
type testExposer struct{ made map[string]*exposure }

func (s *testExposer) Reset() { s.made = map[string]*exposure{} }

func (s *testExposer) Expose(state Reader, changes []Change) []Exposed {
	policy := ""
	if row := state.Get(exposurePolicyKey); row != nil {
		policy = string(row.Value)
	}
	written := map[string]bool{}
	for _, c := range changes {
		written[c.Row().Key] = !c.SameEntry()
	}
	var all []Exposed
	state.Ascend("o/", func(row *Row) bool {
		e := s.intern(viewsOf(row.Key, string(row.Value), policy))
		if written[row.Key] && e != nil || !written[row.Key] && e != row.Exposure {
			all = append(all, Exposed{Key: row.Key, Exposure: e})
		}
		return true
	})
	return all
}

func (s *testExposer) intern(names string) Exposure {
	if names == "" {
		return nil
	}
	if s.made[names] == nil {
		var e exposure
		for _, f := range modelViews {
			if slices.Contains(strings.Split(names, ","), f.String()) {
				e = append(e, f)
			}
		}
		slices.SortFunc(e, key.ExportView.Compare)
		s.made[names] = &e
	}
	return s.made[names]
}

func exposureText(e Exposure) string {
	if e == nil {
		return ""
	}
	var all []string
	for _, f := range e.ExportViews() {
		all = append(all, f.String())
	}
	return strings.Join(all, ",")
}

// shown reports whether an export view shows a row.
func (r *modelRow) shown(f key.ExportView) bool {
	return r != nil && slices.Contains(strings.Split(r.views, ","), f.String())
}

func topicOfView(f key.ExportView, s key.Space, r key.Resource) modelTopic {
	return modelTopic{ExportViewTopic(f, s, r), objectWindow, func(k string, c modelChange) bool {
		segments := strings.Split(k, "/")
		if segments[0] != "o" || s != "" && segments[1] != string(s) || segments[2] != r.Group || segments[3] != r.Resource {
			return false
		}
		isPrevious, isCurrent := c.prev.shown(f), c.cur.shown(f)
		return isPrevious != isCurrent || isPrevious && c.prev.modRev != c.cur.modRev
	}}
}

func viewTopics() (all []modelTopic) {
	configmaps, events := key.ConfigMaps, key.Resource{Group: "core", Resource: "events"}
	for _, f := range modelViews {
		all = append(all, topicOfView(f, "", configmaps), topicOfView(f, "s1", configmaps), topicOfView(f, "s2", configmaps))
	}
	return append(all, topicOfView(modelViews["l1"], "", events), topicOfView(modelViews["l1"], "s1", key.Namespaces))
}

// checkViews compares the reads of export views with the model.
func (m *machine) checkViews(t *rapid.T) {
	counts := map[key.ExportView]int{}
	for _, f := range modelViews {
		var want []string
		for _, k := range slices.Sorted(maps.Keys(m.model.rows)) {
			if row := m.model.rows[k]; row.shown(f) {
				want = append(want, k+" "+row.String())
			}
		}
		counts[f] = len(want)
		var got []string
		rev := m.table.AscendExportView(f, "", func(row *Row) (string, bool) {
			got = append(got, row.Key+" "+rowText(row))
			return "", true
		})
		if !slices.Equal(got, want) || rev != m.model.rev {
			t.Fatalf("in %s at %d: %q, want %q", f, rev, got, want)
		}
		if n := m.table.exportViews.Len(); n > len(modelViews) {
			t.Fatalf("%d export views of %d", n, len(modelViews))
		}
	}
	var want []Slice
	for _, name := range []string{"l3", "l2"} {
		if f := modelViews[name]; counts[f] > 0 {
			want = append(want, Slice{f, counts[f]})
		}
	}
	if got, rev := m.table.Slices("p", "v"); !slices.Equal(got, want) || rev != m.model.rev {
		t.Fatalf("slices at %d: %s, want %s", rev, fmt.Sprint(got), fmt.Sprint(want))
	}
	empty := 0
	m.table.exportViews.Scan(func(f *exportView) bool {
		if f.keys.Len() == 0 {
			empty++
		}
		return true
	})
	if empty > 0 {
		t.Fatalf("%d export views in the index have no row", empty)
	}
}
