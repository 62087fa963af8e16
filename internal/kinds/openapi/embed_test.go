package openapi_test

import (
	"slices"
	"testing"
	"time"

	"orrery.dev/orrery/internal/kinds/builtin"
	"orrery.dev/orrery/internal/kinds/openapi"
)

// TestEmbeddedDocumentsDescribeTheBuiltinKinds fails when the table of kinds and
// the generated documents part.
func TestEmbeddedDocumentsDescribeTheBuiltinKinds(t *testing.T) {
	embeds, err := openapi.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	all, err := builtin.Kinds(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	reviews, err := builtin.Reviews(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, k := range slices.Concat(all, reviews) {
		root := openapi.Root(k.GVR.GroupVersion())
		want[root] = append(want[root], k.GVR.Resource)
	}
	for root, d := range embeds.V3 {
		slices.Sort(want[root])
		if !slices.Equal(d.Resources, want[root]) {
			t.Errorf("%s: described are %q, served are %q", root, d.Resources, want[root])
		}
		delete(want, root)
	}
	for root := range want {
		t.Errorf("%s: not described", root)
	}
}
