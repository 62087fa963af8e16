package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// load type-checks a package that imports nothing.
func load(t *testing.T, sources map[string]string) *packages.Package {
	t.Helper()
	p := &packages.Package{
		PkgPath: "example.org/module/dir/p", Module: &packages.Module{Path: "example.org/module"},
		Fset:      token.NewFileSet(),
		TypesInfo: &types.Info{Uses: map[*ast.Ident]types.Object{}},
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, err := parser.ParseFile(p.Fset, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.Syntax = append(p.Syntax, f)
	}
	var err error
	if p.Types, err = (&types.Config{}).Check(p.PkgPath, p.Fset, p.Syntax, p.TypesInfo); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestName(t *testing.T) {
	if got := Name(load(t, nil)); got != "dir/p" {
		t.Errorf("Name = %q, want dir/p", got)
	}
}

func TestMethods(t *testing.T) {
	p := load(t, map[string]string{
		"a.go":                     "package p; type plain int; func (plain) a() {}; func (*plain) b() {}; func c() {}",
		"b.go":                     "package p; type one[T any] struct{}; func (*one[T]) a() {}; func (plain) d() {}",
		"c.go":                     "package p; type two[K, V any] struct{}; func (two[K, V]) a() {}",
		"zz_generated.deepcopy.go": "package p; func (*plain) DeepCopy() {}",
	})
	got := map[string]int{}
	for name, methods := range Methods(p) {
		got[name] = len(methods)
	}
	if want := map[string]int{"plain": 3, "one": 1, "two": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("methods: %v, want %v", got, want)
	}
}

func TestReferences(t *testing.T) {
	p := load(t, map[string]string{
		"a.go":            "package p; type A struct{ f int }; func (A) m() { b() }",
		"b.go":            "package p; func b() { local := A{}; _ = local.f; local.m() }",
		"zz_generated.go": "package p; func g() { b() }",
	})
	g := References(p)
	var names []string
	for _, use := range g[Reference{"b.go", "a.go"}] {
		names = append(names, use.Name)
	}
	if want := []string{"A", "f", "m"}; !slices.Equal(names, want) {
		t.Errorf("b.go uses %q of a.go, want %q", names, want)
	}
	if len(g) != 2 || len(g[Reference{"a.go", "b.go"}]) != 1 {
		t.Errorf("references: %v", g)
	}
}

func TestBackwardAndMutual(t *testing.T) {
	for name, test := range map[string]struct {
		references       []Reference
		backward, mutual int
	}{
		"no files":             {},
		"chain":                {references: []Reference{{"a", "b"}, {"b", "c"}, {"a", "c"}}},
		"chain against names":  {references: []Reference{{"c", "b"}, {"b", "a"}}},
		"pair":                 {references: []Reference{{"a", "b"}, {"b", "a"}}, backward: 1, mutual: 1},
		"ring":                 {references: []Reference{{"a", "b"}, {"b", "c"}, {"c", "a"}}, backward: 1},
		"pairs around a hub":   {references: []Reference{{"h", "a"}, {"a", "h"}, {"h", "b"}, {"b", "h"}}, backward: 2, mutual: 2},
		"ring below a chain":   {references: []Reference{{"x", "a"}, {"a", "b"}, {"b", "a"}, {"b", "y"}}, backward: 1, mutual: 1},
		"two separate clients": {references: []Reference{{"a", "c"}, {"b", "c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := Graph{}
			for _, r := range test.references {
				g[r] = nil
			}
			if got := g.Backward(); len(got) != test.backward {
				t.Errorf("backward: %v, want %d", got, test.backward)
			}
			if got := g.Mutual(); len(got) != test.mutual {
				t.Errorf("mutual: %v, want %d", got, test.mutual)
			}
		})
	}
}

func TestLoadReportsPackagesThatDoNotCompile(t *testing.T) {
	if _, err := Load(".", "./none"); err == nil {
		t.Error("no error for a package that does not exist")
	}
}
