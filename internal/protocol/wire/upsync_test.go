package wire

import (
	"encoding/json"
	"testing"
)

// TestUpsyncLists: an empty list matches nothing and a missing one matches all, on both sides.
func TestUpsyncLists(t *testing.T) {
	all := []Upsync{{Space: "s", Group: "core"}, {Space: "s", Group: "core", Namespaces: []string{}}, {Space: "s", Group: "core", Names: []string{}}, {Space: "s", Group: "core", Names: []string{"n"}}}
	for i, u := range all {
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		var got Upsync
		if err := json.Unmarshal(text, &got); err != nil || (got.Namespaces == nil) != (u.Namespaces == nil) || (got.Names == nil) != (u.Names == nil) {
			t.Errorf("%s arrives as %+v, %v", text, got, err)
		}
		for j, o := range all {
			if got.Equal(o) != (i == j) {
				t.Errorf("%+v and %+v are the same: %v", got, o, got.Equal(o))
			}
		}
	}
}
