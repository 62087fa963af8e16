package builtin

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// discovered is one resource as a kube-apiserver lists it in discovery.
type discovered struct {
	Group, Version, Resource, Kind, Scope, Singular string
	ShortNames, Categories, Verbs, Subresources     []string
}

// TestTableIsThatOfKubernetes compares the table with what Kubernetes serves.
func TestTableIsThatOfKubernetes(t *testing.T) {
	b, err := os.ReadFile("testdata/discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []discovered
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	got := map[schema.GroupVersionResource]*kinds.Kind{}
	for _, k := range builtins(t) {
		got[k.GVR] = k
	}
	for _, w := range want {
		gvr := schema.GroupVersionResource{Group: w.Group, Version: w.Version, Resource: w.Resource}
		k, ok := got[gvr]
		delete(got, gvr)
		if kept := slices.Contains(w.Verbs, "delete"); kept != ok {
			t.Errorf("%v: in the table: %v, objects can be kept: %v", gvr, ok, kept)
			continue
		}
		if !ok {
			continue
		}
		is := discovered{
			Group: k.GVK.Group, Version: k.GVK.Version, Resource: k.GVR.Resource, Kind: k.GVK.Kind, Singular: k.Singular,
			ShortNames: k.ShortNames, Categories: k.Categories, Scope: "Cluster",
		}
		if k.Namespaced {
			is.Scope = "Namespaced"
		}
		if is.Kind != w.Kind || is.Singular != w.Singular || is.Scope != w.Scope ||
			!slices.Equal(is.ShortNames, w.ShortNames) || !slices.Equal(is.Categories, w.Categories) {
			t.Errorf("%v: got %+v, want %+v", gvr, is, w)
		}
		if status := slices.Contains(w.Subresources, kinds.StatusSubresource); k.HasStatus != status {
			t.Errorf("%v: has status: %v, want %v", gvr, k.HasStatus, status)
		} else if known := health.HasStatus(key.NewResource(w.Group, w.Resource)); known != status { // agents observe it in full
			t.Errorf("%v: the health depends on the status: %v, want %v", gvr, known, status)
		}
		if scale := slices.Contains(w.Subresources, kinds.ScaleSubresource); (k.Scale != nil) != scale {
			t.Errorf("%v: has scale: %v, want %v", gvr, k.Scale != nil, scale)
		}
	}
	for gvr := range got {
		t.Errorf("%v: Kubernetes does not serve it", gvr)
	}
}

// builtins makes the kinds anew, so that tests see that they share nothing global.
func builtins(t testing.TB) []*kinds.Kind {
	t.Helper()
	all, err := Kinds(tableTime)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func BenchmarkBuiltins(b *testing.B) {
	for b.Loop() {
		builtins(b)
	}
}
