package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
)

// shelfPolicyKey is of an object whose names are also those of all others, as shelves.
const shelfPolicyKey = "o/s2/core/configmaps/default/a"

// modelShelves are all that there are in the tests, by the names of values.
var modelShelves = map[string]key.Shelf{
	"l1": {Space: "p", Name: "e"},
	"l2": {Space: "p", Name: "v", View: true, Value: "a"},
	"l3": {Space: "p", Name: "v", View: true},
}

// shelvesOf is the rule of the tests: objects are on the shelves of the names that they have,
// and of those that the policy has.
func shelvesOf(k, value, policy string) string {
	if !strings.HasPrefix(k, "o/") || modelWindow(k) != objectWindow {
		return ""
	}
	var all []string
	for _, name := range slices.Concat(namesOf(value), namesOf(policy)) {
		all = append(all, modelShelves[name].String())
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// showing is interned by testShower.
type showing []key.Shelf

func (s *showing) Shelves() []key.Shelf { return *s }

// testShower recomputes everything every time.
type testShower struct{ made map[string]*showing }

func (s *testShower) Reset() { s.made = map[string]*showing{} }

func (s *testShower) Show(state Reader, changes []Change) []Shown {
	policy := ""
	if row := state.Get(shelfPolicyKey); row != nil {
		policy = string(row.Value)
	}
	written := map[string]bool{}
	for _, c := range changes {
		written[c.Row().Key] = !c.SameEntry()
	}
	var all []Shown
	state.Ascend("o/", func(row *Row) bool {
		on := s.of(shelvesOf(row.Key, string(row.Value), policy))
		if written[row.Key] && on != nil || !written[row.Key] && on != row.On {
			all = append(all, Shown{Key: row.Key, On: on})
		}
		return true
	})
	return all
}

func (s *testShower) of(names string) Showing {
	if names == "" {
		return nil
	}
	if s.made[names] == nil {
		var on showing
		for _, f := range modelShelves {
			if slices.Contains(strings.Split(names, ","), f.String()) {
				on = append(on, f)
			}
		}
		slices.SortFunc(on, key.Shelf.Compare)
		s.made[names] = &on
	}
	return s.made[names]
}

func shelvesText(on Showing) string {
	if on == nil {
		return ""
	}
	var all []string
	for _, f := range on.Shelves() {
		all = append(all, f.String())
	}
	return strings.Join(all, ",")
}

// shown says whether a row is on a shelf.
func (r *modelRow) shown(f key.Shelf) bool {
	return r != nil && slices.Contains(strings.Split(r.shelves, ","), f.String())
}

func topicOn(f key.Shelf, s key.Space, r key.Resource) modelTopic {
	return modelTopic{On(f, s, r), objectWindow, func(k string, c modelChange) bool {
		parts := strings.Split(k, "/")
		if parts[0] != "o" || s != "" && parts[1] != string(s) || parts[2] != r.Group || parts[3] != r.Resource {
			return false
		}
		was, is := c.prev.shown(f), c.cur.shown(f)
		return was != is || was && c.prev.modRev != c.cur.modRev
	}}
}

func shelfTopics() (all []modelTopic) {
	configmaps, events := key.ConfigMaps, key.Resource{Group: "core", Resource: "events"}
	for _, f := range modelShelves {
		all = append(all, topicOn(f, "", configmaps), topicOn(f, "s1", configmaps), topicOn(f, "s2", configmaps))
	}
	return append(all, topicOn(modelShelves["l1"], "", events), topicOn(modelShelves["l1"], "s1", key.Namespaces))
}

// checkShelves compares what is read of shelves with the model.
func (m *machine) checkShelves(t *rapid.T) {
	counts := map[key.Shelf]int{}
	for _, f := range modelShelves {
		var want []string
		for _, k := range slices.Sorted(maps.Keys(m.model.rows)) {
			if row := m.model.rows[k]; row.shown(f) {
				want = append(want, k+" "+row.String())
			}
		}
		counts[f] = len(want)
		var got []string
		rev := m.table.AscendShelf(f, "", func(row *Row) (string, bool) {
			got = append(got, row.Key+" "+rowText(row))
			return "", true
		})
		if !slices.Equal(got, want) || rev != m.model.rev {
			t.Fatalf("on %s at %d: %q, want %q", f, rev, got, want)
		}
		if n := m.table.shelves.Len(); n > len(modelShelves) {
			t.Fatalf("%d shelves of %d", n, len(modelShelves))
		}
	}
	var want []Shelf
	for _, name := range []string{"l3", "l2"} {
		if f := modelShelves[name]; counts[f] > 0 {
			want = append(want, Shelf{f, counts[f]})
		}
	}
	if got, rev := m.table.SlicesOf("p", "v"); !slices.Equal(got, want) || rev != m.model.rev {
		t.Fatalf("slices at %d: %s, want %s", rev, fmt.Sprint(got), fmt.Sprint(want))
	}
	empty := 0
	m.table.shelves.Scan(func(f *shelf) bool {
		if f.keys.Len() == 0 {
			empty++
		}
		return true
	})
	if empty > 0 {
		t.Fatalf("%d shelves are kept without a row", empty)
	}
}
