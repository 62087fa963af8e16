package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// labelSelector is a selector with some requirements, and as many values in another.
func labelSelector(requirements, values int) map[string]any {
	var all []any
	for i := range requirements {
		all = append(all, map[string]any{"key": fmt.Sprint("k", i), "operator": "Exists"})
	}
	if values > 0 {
		var names []string
		for i := range values {
			names = append(names, fmt.Sprint(i))
		}
		all[0] = map[string]any{"key": "k", "operator": "In", "values": names}
	}
	return map[string]any{"matchExpressions": all}
}

// objectTests are entries of some selectors each.
func objectTests(entries, selectors, requirements, values int) (all []any) {
	for range entries {
		var list []any
		for range selectors {
			list = append(list, labelSelector(requirements, values))
		}
		all = append(all, map[string]any{"resources": []any{"configmaps"}, "labelSelectors": list})
	}
	return all
}

// policyText is an object of Orrery's with a spec.
func policyText(t *testing.T, kind, name string, spec map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "orrery.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSelectorBounds: an object whose label selectors would cost the hub more than a bounded time for each
// object of a space is refused at the field that passes the limit; one at the limit is not.
func TestSelectorBounds(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	rules, columns := []any{map[string]any{"path": "$.data.a", "value": "x"}}, []any{map[string]any{"name": "n", "type": "COUNT"}}
	locations := func(selectors, requirements, values int) (all []any) {
		for range selectors {
			all = append(all, map[string]any{"selector": labelSelector(requirements, values)})
		}
		return all
	}
	for i, c := range []struct {
		kind, resource string
		space          key.Space
		spec           map[string]any
		refused        []string // nil: it is created
	}{
		{"Placement", "placements", "s", map[string]any{"downsync": objectTests(2, 64, 9, 0)}, []string{"spec.downsync[1].labelSelectors[49]: Invalid value: 1026", "more than 1024 requirements"}},
		{"Placement", "placements", "s", map[string]any{"downsync": objectTests(2, 8, 64, 0)}, nil},
		{"Placement", "placements", "s", map[string]any{"downsync": objectTests(4, 16, 2, 64)}, nil},
		{"Placement", "placements", "s", map[string]any{"downsync": objectTests(4, 16, 2, 65)}, []string{"spec.downsync[3].labelSelectors[15]: Invalid value: 4160", "more than 4096 values"}},
		{"Placement", "placements", "s", map[string]any{"locations": locations(64, 17, 0)}, []string{"spec.locations[60].selector", "more than 1024 requirements"}},
		{"Placement", "placements", key.Root, map[string]any{"spaces": map[string]any{"selector": labelSelector(1025, 0)}}, []string{"spec.spaces.selector", "more than 1024 requirements"}},
		{"Customizer", "customizers", "s", map[string]any{"rules": rules, "match": objectTests(2, 64, 9, 0)}, []string{"spec.match[1].labelSelectors[49]", "more than 1024 requirements"}},
		{"Customizer", "customizers", "s", map[string]any{"rules": rules, "match": objectTests(2, 8, 64, 0)}, nil},
		{"Summary", "summaries", "s", map[string]any{"combine": columns, "match": objectTests(2, 64, 9, 0)}, []string{"spec.match[1].labelSelectors[49]", "more than 1024 requirements"}},
		{"Summary", "summaries", "s", map[string]any{"combine": columns, "match": objectTests(2, 8, 64, 0)}, nil},
		{"Location", "locations", key.Root, map[string]any{"admit": []any{map[string]any{"spaces": map[string]any{"selector": labelSelector(1025, 0)}}}}, []string{"spec.admit[0].spaces.selector", "more than 1024 requirements"}},
		{"Location", "locations", key.Root, map[string]any{"admit": []any{map[string]any{"spaces": map[string]any{"selector": labelSelector(1024, 0)}}}}, nil},
		{"Location", "locations", key.Root, map[string]any{"admit": repeated(17, map[string]any{"kinds": repeated(256, map[string]any{"apiGroup": "a"})})}, []string{"spec.admit[16].kinds", "more than 4096 kinds"}},
		{"APIExport", "apiexports", "s", map[string]any{"claims": []any{map[string]any{"group": "", "resource": "configmaps", "verbs": []any{"get"}, "selector": labelSelector(1025, 0)}}}, []string{"spec.claims[0].selector", "more than 1024 requirements"}},
		{"Grant", "grants", key.Root, map[string]any{"subjects": []any{map[string]any{"kind": "User", "name": "jane"}}, "roles": []any{map[string]any{"name": "view"}}, "spaces": map[string]any{"selector": labelSelector(1025, 0)}}, []string{"spec.spaces.selector", "more than 1024 requirements"}},
	} {
		name := fmt.Sprint("case-", i)
		code, body := admin.send("POST "+orreryOf(c.space, c.resource), policyText(t, c.kind, name, c.spec))
		want := http.StatusCreated
		if c.refused != nil {
			want = http.StatusUnprocessableEntity
		}
		if code != want {
			t.Errorf("%s %s: %d %.300s, want %d", c.kind, name, code, body, want)
			continue
		}
		for _, text := range c.refused {
			if !strings.Contains(body, text) {
				t.Errorf("%s %s: %.300s, want %q in it", c.kind, name, body, text)
			}
		}
	}
}

// repeated is a list of one thing many times.
func repeated(n int, one any) (all []any) {
	for range n {
		all = append(all, one)
	}
	return all
}

// TestSpaceSelectorBound: the policies of a space are bounded together, however small each is, and another
// space is not.
func TestSpaceSelectorBound(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addSpace("other")
	admin := r.as("admin", "system:masters")
	write := func(s key.Space, i, requirements int) (int, string) {
		t.Helper()
		return admin.send("POST "+orreryOf(s, "placements"), policyText(t, "Placement", fmt.Sprint("p", i), map[string]any{"downsync": objectTests(1, 1, requirements, 0)}))
	}
	for i := range 7 { // each with one for its entry
		if code, body := write("s", i, 1024); code != http.StatusCreated {
			t.Fatalf("Placement %d: %d %.300s", i, code, body)
		}
	}
	if code, body := write("s", 7, 8192-7*1025-1-4); code != http.StatusCreated {
		t.Fatalf("one for the rest: %d %.300s", code, body)
	}
	if code, body := write("s", 8, 3); code != http.StatusCreated {
		t.Errorf("a small one: %d %.300s", code, body)
	}
	if code, body := write("s", 9, 1); code != http.StatusForbidden || !strings.Contains(body, "requested: policyTests=2, used: policyTests=8192, limited: policyTests=8192") || !strings.Contains(body, "have an operator set spec.limits.policyTests") {
		t.Errorf("one too many: %d %.500s", code, body)
	}
	if code, body := write("other", 16, 1024); code != http.StatusCreated {
		t.Errorf("in another space: %d %.300s", code, body)
	}
	for _, body := range []string{`{"spec":{"suspend":true}}`, `{"spec":{"downsync":[{"resources":["secrets"]}]}}`} {
		if code, answer := admin.send("PATCH "+orreryOf("s", "placements/p3"), body, contentType, "application/merge-patch+json"); code != http.StatusOK {
			t.Errorf("%s where the space is full: %d %.300s", body, code, answer)
		}
	}
}

// TestStoredBeyondBounds: a Placement that was stored with more than can be written today places what it
// did. It can be changed as long as its selectors do not grow, and be deleted.
func TestStoredBeyondBounds(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	if code, body := admin.send("POST "+orreryOf("s", "placements"), policyText(t, "Placement", "old", map[string]any{
		"locations": []any{map[string]any{"names": []any{"b"}}}, "downsync": objectTests(1, 1, 1, 0),
	})); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	downsync := append(objectTests(20, 64, 9, 0), map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": "app"}}}})
	r.eventually(func() string { // the hub writes its status meanwhile
		row := r.row(key.Object{Space: "s", Identity: key.Identity{Resource: key.Placements, Name: "old"}}.Key())
		value, err := sjson.SetBytes(row.Value, "spec.downsync", downsync)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := r.Log.Put(t.Context(), row.Key, value, row.ModRev); err != nil || !ok {
			return fmt.Sprintf("the Placement is not stored: %v", err)
		}
		return ""
	})
	one := r.row("o/s/core/configmaps/default/one")
	if m, ok := one.In.(*placement.Membership); !ok || !m.Contains("b") {
		t.Errorf("the object is placed at %v, want b among them", one.In.Locations())
	}
	const merge = "application/merge-patch+json"
	for _, c := range []struct {
		request, body, media string
		code                 int
	}{
		{"PATCH", `{"metadata":{"labels":{"a":"b"}},"spec":{"suspend":true}}`, merge, http.StatusOK},
		{"PATCH", `[{"op":"add","path":"/spec/downsync/0/labelSelectors/-","value":{"matchLabels":{"a":"b"}}}]`, "application/json-patch+json", http.StatusUnprocessableEntity},
		{"PATCH", `[{"op":"remove","path":"/spec/downsync/0"}]`, "application/json-patch+json", http.StatusOK},
		{"DELETE", "", merge, http.StatusOK},
	} {
		if code, body := admin.send(c.request+" "+orreryOf("s", "placements/old"), c.body, contentType, c.media); code != c.code {
			t.Errorf("%s %s: %d %.300s, want %d", c.request, c.body, code, body, c.code)
		}
	}
}
