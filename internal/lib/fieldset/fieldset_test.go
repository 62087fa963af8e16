package fieldset

import (
	"encoding/json"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestOf tests the parts of an object that are in sets of fields, also with whole elements.
func TestOf(t *testing.T) {
	const object = `{"status":{"n":1,"list":[{"type":"A","status":"True","note":"x"},{"type":"B","status":"False"}],"set":["x","y"],"atomic":[1,2],"in":{"a":1,"b":{"c":2}}}}`
	for _, c := range []struct{ set, subset, whole string }{
		{`{}`, `{}`, ``},
		{`{"f:other":{}}`, `{}`, ``},
		{`{"f:status":{}}`, object, ``},
		{`{"f:status":{"f:n":{},"f:gone":{}}}`, `{"status":{"n":1}}`, ``},
		{`{"f:status":{"f:list":{".":{},"k:{\"type\":\"A\"}":{".":{},"f:type":{},"f:note":{}}}}}`,
			`{"status":{"list":[{"type":"A","note":"x"}]}}`, `{"status":{"list":[{"type":"A","status":"True","note":"x"}]}}`},
		{`{"f:status":{"f:list":{"k:{\"type\":\"B\"}":{"f:status":{}}}}}`,
			`{"status":{"list":[{"status":"False"}]}}`, `{"status":{"list":[{"type":"B","status":"False"}]}}`},
		{`{"f:status":{"f:list":{"k:{\"type\":\"C\"}":{"f:status":{}}}}}`, `{"status":{"list":[]}}`, ``},
		{`{"f:status":{"f:set":{"v:\"y\"":{}},"f:atomic":{}}}`, `{"status":{"set":["y"],"atomic":[1,2]}}`, ``},
		{`{"f:status":{"f:atomic":{"i:1":{}},"f:in":{"f:b":{"f:c":{}}}}}`, `{"status":{"atomic":[2],"in":{"b":{"c":2}}}}`, ``},
	} {
		set := &fieldpath.Set{}
		if err := set.FromJSON(strings.NewReader(c.set)); err != nil {
			t.Fatal(err)
		}
		if c.whole == "" {
			c.whole = c.subset
		}
		for want, set := range map[string]*fieldpath.Set{"of " + c.subset: set, "whole " + c.whole: Whole(set)} {
			var all any
			if err := utiljson.Unmarshal([]byte(object), &all); err != nil {
				t.Fatal(err)
			}
			_, want, _ := strings.Cut(want, " ")
			if got := canonical(t, Select(all, set)); got != canonical(t, json.RawMessage(want)) {
				t.Errorf("%s:\n got %s\nwant %s", c.set, got, want)
			}
		}
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
