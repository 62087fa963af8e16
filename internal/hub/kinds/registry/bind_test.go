package registry

import (
	"encoding/json"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// row writes an object of Orrery's, or deletes it if it is empty.
func (s spaces) row(space key.Space, r key.Resource, name, object string) {
	s.Helper()
	rev := s.Rev() + 1
	u := table.Update{Key: key.Object{Space: space, Identity: key.Identity{Resource: r, Name: name}}.Key(), ModRev: rev}
	if object != "" {
		u.Value, u.CreateRev = []byte(object), rev
	}
	if err := s.Apply(rev, []table.Update{u}); err != nil {
		s.Fatal(err)
	}
}

// export has a space p that exports widgets, which some spaces have bound under some short names.
func (s spaces) export(shortNames []string, consumers ...key.Space) {
	s.Helper()
	short, err := json.Marshal(shortNames)
	if err != nil {
		s.Fatal(err)
	}
	s.row(key.Root, key.Spaces, "p", `{"metadata":{"name":"p","uid":"1"}}`)
	s.row("p", key.APIExports, "e", `{"metadata":{"name":"e"},"spec":{"resources":[{"group":"example.com","resource":"widgets"}]}}`)
	for _, c := range consumers {
		s.row(c, key.APIBindings, "b", fmt.Sprintf(`{"metadata":{"name":"b"},"spec":{"export":{"space":"p","name":"e"}},"status":{"spaceUID":"1","resources":[
			{"group":"example.com","resource":"widgets","kind":"Widget","listKind":"WidgetList","singular":"widget","shortNames":%s,"namespaced":true,"versions":["v1","v2"],"storageVersion":"v1"}]}}`, short))
	}
}

// TestBoundKinds: a bound kind is its provider's own, and is known by its names alone where
// there is no definition.
func TestBoundKinds(t *testing.T) {
	const established = apiextensionsv1.Established
	r, s := newTestRegistry(t), newSpaces(t)
	crd := readCRD(t, "widgets")
	crd.Spec.Names.Singular, crd.Spec.Names.ListKind = "widget", "WidgetList"
	s.put("p", crd, established)
	s.export(crd.Spec.Names.ShortNames, "a", "b")
	lookup := func(space key.Space) (*kinds.Catalog, *kinds.Kind) {
		t.Helper()
		c := s.catalog(r, space)
		k, ok := c.Lookup(widgetsV1)
		if !ok {
			t.Fatalf("%s has no widgets", space)
		}
		return c, k
	}
	_, own := lookup("p")
	inA, a := lookup("a")
	if _, b := lookup("b"); a != own || b != own {
		t.Error("compiled more than once")
	}
	if again, _ := lookup("a"); again != inA {
		t.Error("made again though nothing changed")
	}
	if owner := inA.Owner(a); owner != (key.Identity{Resource: key.APIBindings, Name: "b"}) || inA.Access(a) != kinds.ReadWrite {
		t.Errorf("owned by %v, access %v", owner, inA.Access(a))
	}
	s.export([]string{"other"}, "b")
	if _, b := lookup("b"); b == own || len(b.ShortNames) != 1 || b.ShortNames[0] != "other" {
		t.Errorf("bound as %v", b.ShortNames)
	}
	for name, leaves := range seeds.Ordered(map[string]func(){
		"export": func() { s.row("p", key.APIExports, "e", "") },
		"space":  func() { s.row(key.Root, key.Spaces, "p", `{"metadata":{"name":"p","uid":"2"}}`) },
		"CRD":    func() { s.row("p", key.CRDs, crd.Name, "") },
	}) {
		leaves()
		c, k := lookup("a")
		if c.Access(k) != kinds.Waiting || k.Custom.Hash() == own.Custom.Hash() || c.Waits(k, "update") == nil || c.Waits(k, "delete") != nil {
			t.Errorf("without the %s: access %v", name, c.Access(k))
		}
		if _, ok := c.Lookup(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}); !ok {
			t.Errorf("without the %s: v2 is not served", name)
		}
		s.put("p", crd, established)
		s.export(crd.Spec.Names.ShortNames)
		if c, k := lookup("a"); k.Custom.Hash() != own.Custom.Hash() || c.Access(k) != kinds.ReadWrite {
			t.Errorf("the %s is back, and nothing else", name)
		}
	}
}
