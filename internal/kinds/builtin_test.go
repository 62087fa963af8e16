package kinds

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discovered is one resource as a kube-apiserver 1.36 lists it in discovery.
type discovered struct {
	Group, Version, Resource, Kind, Scope, Singular string
	ShortNames, Categories, Verbs, Subresources     []string
}

// TestTableIsThatOfKubernetes compares the table with what Kubernetes serves.
func TestTableIsThatOfKubernetes(t *testing.T) {
	b, err := os.ReadFile("testdata/discovery-1.36.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []discovered
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	got := map[schema.GroupVersionResource]*Kind{}
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
		if status := slices.Contains(w.Subresources, StatusSubresource); k.HasStatus != status {
			t.Errorf("%v: has status: %v, want %v", gvr, k.HasStatus, status)
		}
		if scale := slices.Contains(w.Subresources, ScaleSubresource); (k.Scale != nil) != scale {
			t.Errorf("%v: has scale: %v, want %v", gvr, k.Scale != nil, scale)
		}
	}
	for gvr := range got {
		t.Errorf("%v: Kubernetes does not serve it", gvr)
	}
}

func TestScopesAreComplete(t *testing.T) {
	for _, k := range builtins(t) {
		for sub, has := range map[string]bool{"": true, StatusSubresource: k.HasStatus, ScaleSubresource: k.Scale != nil} {
			s := k.Scope(sub)
			if (s != nil) != has {
				t.Errorf("%s %q: scope is there: %v, want %v", k.GVK, sub, s != nil, has)
			}
			if s == nil {
				continue
			}
			if s.Namer == nil || s.Serializer == nil || s.ParameterCodec == nil || s.Creater == nil || s.Convertor == nil ||
				s.Defaulter == nil || s.Typer == nil || s.UnsafeConvertor == nil || s.Authorizer == nil || s.FieldManager == nil ||
				s.TableConvertor == nil || s.MaxRequestBodyBytes == 0 {
				t.Errorf("%s %q: incomplete scope %+v", k.GVK, sub, s)
			}
			if s.Resource != k.GVR || s.Subresource != sub {
				t.Errorf("%s %q: scope of %v %q", k.GVK, sub, s.Resource, s.Subresource)
			}
			s.Subresource = "changed"
			if again := k.Scope(sub); again.Subresource != sub {
				t.Errorf("%s %q: the caller's copy is shared", k.GVK, sub)
			}
		}
	}
}

// builtins makes the kinds anew, so that tests see that they share nothing global.
func builtins(t testing.TB) []*Kind {
	t.Helper()
	kinds, err := Builtins()
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func BenchmarkBuiltins(b *testing.B) {
	for b.Loop() {
		builtins(b)
	}
}
