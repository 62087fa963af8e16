package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// TestManyTokens: with the maximum number of tokens, lists and refusals read each token only once, whatever rights
// the user has. Operators can still create tokens.
func TestManyTokens(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	// Rights that are expensive to evaluate, of a user in many groups.
	var groups []string
	for i := range 400 {
		groups = append(groups, fmt.Sprint("group", i))
	}
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	row, _ := r.Table.Get(key.Space("a").Key())
	ofA := &bearer.Scope{Space: "a", UID: row.Meta.UID}
	fill := func(from, to int) {
		t.Helper()
		for from < to {
			var ops []etcd.Op
			for ; from < to && len(ops) < 100; from++ {
				record := bearer.Record{User: "x", Creator: fmt.Sprint("by", from/400), Created: time.Now(), Expires: time.Now().Add(time.Hour)}
				if from < 400 {
					record.Scope = ofA
				}
				id := bearer.NewID()
				_, value, err := bearer.New(id, record)
				if err != nil {
					t.Fatal(err)
				}
				ops = append(ops, etcd.Op{Key: key.Token(id), Value: value})
			}
			if _, err := r.Log.Write(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := time.Now()
	fill(0, 9490)
	t.Logf("filled in %s", time.Since(begun))
	jane, op := r.as("jane", groups...), r.as("op", masters)
	list := func(c client) (all v1alpha1.TokenList) {
		t.Helper()
		begun := time.Now()
		code, body := c.send("GET "+route.Tokens, "")
		if err := json.Unmarshal([]byte(body), &all); code != http.StatusOK || err != nil {
			t.Fatalf("%d %.300s", code, body)
		}
		t.Logf("%d of the tokens are listed in %s", len(all.Items), time.Since(begun))
		return all
	}
	if got := list(jane); len(got.Items) != 400 {
		t.Errorf("a space's admin sees %d tokens, want those of the space that is", len(got.Items))
	}
	if got := list(op); len(got.Items) < 9490 {
		t.Errorf("an operator sees %d tokens", len(got.Items))
	}
	begun = time.Now()
	if code, _, body := jane.mint(`{"space":"a","role":"view"}`); code != http.StatusOK {
		t.Errorf("with room: %d %s", code, body)
	}
	t.Logf("one is made in %s", time.Since(begun))
	fill(9490, 9500)
	if code, _, body := jane.mint(`{"space":"a","role":"view"}`); code != http.StatusForbidden || !strings.Contains(body, "the hub has 9501 tokens; revoke some") {
		t.Errorf("when others have used up theirs: %d %s", code, body)
	}
	if code, _, body := op.mint(`{"user":"x"}`); code != http.StatusOK {
		t.Errorf("an operator: %d %s", code, body)
	}
	fill(9500, 10000)
	if code, _, body := op.mint(`{"user":"x"}`); code != http.StatusForbidden || !strings.Contains(body, "revoke some") {
		t.Errorf("when there are all: %d %s", code, body)
	}
	// The names and groups of a user are stored with each token.
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("a-long-name-of-a-group-", i))
	}
	joe := r.as("joe", many...)
	if code, _, body := joe.mint(`{}`); code != http.StatusBadRequest || !strings.Contains(body, "spec.groups") {
		t.Errorf("a user in many groups: %d %s", code, body)
	}
}
