package openapi_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/kinds/builtin"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// TestDocumentsAreOfTheRequiredVersion fails when go.mod requires another Kubernetes
// than the documents were made for: go generate makes them anew.
func TestDocumentsAreOfTheRequiredVersion(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(strings.TrimSpace(string(out)), "v0.", "v1.", 1); openapi.Kubernetes != want {
		t.Errorf("the documents are of Kubernetes %s, required is %s", openapi.Kubernetes, want)
	}
}

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
