package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

var sharedRegistry = sync.OnceValues(New)

func newTestRegistry(t *testing.T) *Registry {
	t.Helper()
	r, err := sharedRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var widgetsV1 = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func readCRD(t testing.TB, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "custom", "testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func checkErrors(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) > 0:
		t.Errorf("got %v", errs)
	case want != "" && !strings.Contains(fmt.Sprint(errs), want):
		t.Errorf("got %v, want %q", errs, want)
	}
}

// spaces is a log in which tests put CRDs.
type spaces struct {
	testing.TB
	*table.Writer
}

func newSpaces(t testing.TB) spaces { return spaces{t, table.New(table.Config{})} }

func (s spaces) put(space key.Space, crd *apiextensionsv1.CustomResourceDefinition, conditions ...apiextensionsv1.CustomResourceDefinitionConditionType) {
	s.Helper()
	crd = crd.DeepCopy()
	crd.Status.AcceptedNames = crd.Spec.Names
	for _, c := range conditions {
		crd.Status.Conditions = append(crd.Status.Conditions,
			apiextensionsv1.CustomResourceDefinitionCondition{Type: c, Status: apiextensionsv1.ConditionTrue})
	}
	value, err := json.Marshal(crd)
	if err != nil {
		s.Fatal(err)
	}
	s.write(space, crd.Name, value)
}

func (s spaces) write(space key.Space, name string, value []byte) {
	s.Helper()
	rev := s.Rev() + 1
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.CRDs, Name: name}}
	if err := s.Apply(rev, []table.Update{{Key: o.Key(), Value: value, CreateRev: rev, ModRev: rev}}); err != nil {
		s.Fatal(err)
	}
}

func (s spaces) catalog(r *Registry, space key.Space) *kinds.Catalog {
	s.Helper()
	c, err := r.Catalog(space, s.Snapshot())
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func TestCatalogIsAFunctionOfTheCRDs(t *testing.T) {
	const established, terminating = apiextensionsv1.Established, apiextensionsv1.Terminating
	r, s := newTestRegistry(t), newSpaces(t)
	plain := s.catalog(r, "a")
	if plain != s.catalog(r, "b") || plain == s.catalog(r, key.Root) {
		t.Error("spaces without CRDs share a catalog, but not with root")
	}

	s.put("a", readCRD(t, "widgets"), established)
	s.put("b", readCRD(t, "widgets-other"), established)
	s.put("c", readCRD(t, "widgets"), established)
	a, b, c := s.catalog(r, "a"), s.catalog(r, "b"), s.catalog(r, "c")
	if a != s.catalog(r, "a") {
		t.Error("made again though nothing changed")
	}
	inA, _ := a.Lookup(widgetsV1)
	inB, _ := b.Lookup(widgetsV1)
	inC, _ := c.Lookup(widgetsV1)
	if inA == nil || inA != inC || inA == inB || !inA.Namespaced || inB.Namespaced {
		t.Errorf("got %p, %p and %p", inA, inB, inC)
	}
	if _, ok := s.catalog(r, "d").Lookup(widgetsV1); ok {
		t.Error("one space's CRD is served in another")
	}
	if k, ok := a.ForStorage(key.NewResource("example.com", "widgets")); !ok || k != inA {
		t.Errorf("got %v for storage", k)
	}
	if len(a.Kinds()) != len(plain.Kinds())+2 {
		t.Errorf("got %d kinds and %d", len(a.Kinds()), len(plain.Kinds()))
	}

	s.put("a", readCRD(t, "gears"))
	if got := s.catalog(r, "a"); len(got.Kinds()) != len(a.Kinds()) {
		t.Error("a CRD is served that is not established")
	}
	s.put("a", readCRD(t, "widgets"), established, terminating)
	gone := s.catalog(r, "a")
	k, ok := gone.Lookup(widgetsV1)
	if !ok || gone.Access(k) != kinds.Terminating || gone.Access(k).Allows("create") || !gone.Access(k).Allows("patch") {
		t.Errorf("got %v, access %v", k, gone.Access(k))
	}
	if k != inC || s.catalog(r, "c").Access(inC) != kinds.ReadWrite {
		t.Error("the end of a CRD in one space shows in another")
	}
	kept := r.spaces.len()
	r.Observe(1, []table.Change{{Prev: &table.Row{Entry: &table.Entry{Key: key.Space("c").Key()}}}})
	if r.spaces.len() != kept-1 || s.catalog(r, "c") == c {
		t.Error("a deleted space is not forgotten")
	}
	r.Reset()
	r.Observe(2, []table.Change{{Cur: &table.Row{Entry: &table.Entry{Key: key.Space("a").Key()}}}})
	if _, ok := r.spaces.peek("a"); !ok || r.spaces.len() != 1 {
		t.Error("a space that is not in a new state is not forgotten")
	}
	s.write("a", "widgets.example.com", nil)
	s.write("a", "gears.example.com", nil)
	if s.catalog(r, "a") != plain {
		t.Error("not as before")
	}
}

func TestABadCRDTakesNothingAlong(t *testing.T) {
	r, s := newTestRegistry(t), newSpaces(t)
	s.put("a", readCRD(t, "widgets"), apiextensionsv1.Established)
	s.write("a", "bad.example.com", []byte(`{"spec": []}`))
	for range 2 {
		c, err := r.Catalog("a", s.Snapshot())
		if err == nil || !strings.Contains(err.Error(), "bad.example.com") {
			t.Errorf("got %v", err)
		}
		if _, ok := c.Lookup(widgetsV1); !ok {
			t.Error("widgets are not served")
		}
	}
}

func TestNoCRDRedefinesWhatIsBuiltIn(t *testing.T) {
	r := newTestRegistry(t)
	for _, test := range []struct {
		name   string
		change func(*apiextensionsv1.CustomResourceDefinitionSpec)
		want   string
	}{
		{"fine", func(*apiextensionsv1.CustomResourceDefinitionSpec) {}, ""},
		{"own group", func(s *apiextensionsv1.CustomResourceDefinitionSpec) { s.Group = "orrery.dev" }, "spec.group"},
		{"built-in resource", func(s *apiextensionsv1.CustomResourceDefinitionSpec) {
			s.Group, s.Names.Plural = "networking.k8s.io", "ingresses"
		}, "spec.names.plural"},
		{"built-in kind", func(s *apiextensionsv1.CustomResourceDefinitionSpec) {
			s.Group, s.Names.Kind = "networking.k8s.io", "Ingress"
		}, "spec.names.kind"},
		{"nothing stored", func(s *apiextensionsv1.CustomResourceDefinitionSpec) {
			s.Versions[0].Storage = false
		}, "no version is stored"},
	} {
		t.Run(test.name, func(t *testing.T) {
			crd := readCRD(t, "widgets")
			test.change(&crd.Spec)
			checkErrors(t, r.ValidateCRD(t.Context(), crd), test.want)
		})
	}
}
