package orrery_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listIn returns the words of a list of the Makefile.
func listIn(t *testing.T, name string) []string {
	t.Helper()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(makefile), "\\\n", " ")
	list := regexp.MustCompile(`(?m)^` + name + ` *:= *(?:\$\(addprefix \./internal/,([^)]*)\)(.*)|\^\(([\w|]+)\)\$\$)$`).FindStringSubmatch(joined)
	if list == nil {
		t.Fatalf("the Makefile has no list %s", name)
	}
	words := strings.FieldsFunc(list[3], func(r rune) bool { return r == '|' })
	for pkg := range strings.FieldsSeq(list[1]) {
		words = append(words, "./internal/"+pkg)
	}
	return append(words, strings.Fields(list[2])...)
}

// parsed returns the files of the package in a folder, its tests among them.
func parsed(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Errorf("the Makefile names %s, which has no Go files: %v", folder, err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

// startsGoroutines returns what in a file may start a goroutine; empty: nothing.
func startsGoroutines(file *ast.File) (what string) {
	for _, imported := range file.Imports {
		switch name, _ := strconv.Unquote(imported.Path.Value); name {
		case "golang.org/x/sync/errgroup", "net/http", "net/http/httptest":
			return name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "a go statement"
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				what = n.Sel.Name
			}
		}
		return what == ""
	})
	return what
}

// TestPlainPackagesStartNoGoroutines shows that make unit runs no package without the race
// detector in which the detector could find a race.
func TestPlainPackagesStartNoGoroutines(t *testing.T) {
	for _, pkg := range listIn(t, "PLAIN") {
		for name, file := range parsed(t, pkg) {
			if what := startsGoroutines(file); what != "" {
				t.Errorf("%s may start a goroutine (%s): remove %s from the list PLAIN of the Makefile", name, what, pkg)
			}
		}
	}
}

// TestOthersStartGoroutines shows that make unit runs no package with the race detector in which the
// detector can find nothing.
func TestOthersStartGoroutines(t *testing.T) {
	plain := listIn(t, "PLAIN")
	for _, root := range []string{"internal", "apis"} {
		err := filepath.WalkDir(root, func(folder string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			pkg := "./" + filepath.ToSlash(folder)
			if err != nil || len(tests) == 0 || slices.Contains(plain, pkg) {
				return err
			}
			for _, file := range parsed(t, folder) {
				if startsGoroutines(file) != "" {
					return nil
				}
			}
			t.Errorf("%s starts no goroutine: add it to the list PLAIN of the Makefile, and remove it from DEEP", pkg)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestVolumeTestsExist shows that each test that make unit leaves to its run without the race
// detector is a test of the hub: a name that matches nothing would be left out of both runs. No
// other package has a test of that name, because make unit leaves it out there and runs it nowhere.
func TestVolumeTestsExist(t *testing.T) {
	volume := listIn(t, "VOLUME")
	found := map[string]bool{}
	err := filepath.WalkDir("internal", func(folder string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(tests) == 0 {
			return err
		}
		for name, file := range parsed(t, folder) {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || !slices.Contains(volume, f.Name.Name) {
					continue
				}
				if found[f.Name.Name] = true; path.Clean(folder) != "internal/hub" {
					t.Errorf("%s has a test %s, which make unit runs in internal/hub alone: give it another name", name, f.Name.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range volume {
		if !found[name] {
			t.Errorf("the list VOLUME of the Makefile names %s, which no package has", name)
		}
	}
}

// TestReducedInputsRunWhole shows that tests which have fewer inputs with the race detector also run
// without it: all of their package, or by their names.
func TestReducedInputsRunWhole(t *testing.T) {
	whole, named := append(listIn(t, "DEEP"), listIn(t, "PLAIN")...), listIn(t, "DEEPHUB")
	found := map[string]bool{}
	for _, root := range []string{"internal", "apis", "views"} {
		err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			pkg := "./" + filepath.ToSlash(filepath.Dir(name))
			reduces := regexp.MustCompile(`\bseeds\.(All|Check|Reduced)\(`).Find(source)
			if reduces == nil || slices.Contains(whole, pkg) {
				return nil
			}
			if pkg != "./internal/hub" {
				t.Errorf("%s calls %s…), which has fewer inputs with the race detector: add %s to the list DEEP of the Makefile", name, reduces, pkg)
			}
			for _, test := range testsIn(string(source)) {
				if found[test] = true; !slices.Contains(named, test) {
					t.Errorf("%s calls %s…), which has fewer inputs with the race detector: add %s to the list DEEPHUB of the Makefile, or move it to another file", name, reduces, test)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range named {
		if !found[test] {
			t.Errorf("the list DEEPHUB of the Makefile names %s, but no file of internal/hub with fewer inputs has it", test)
		}
	}
}

// testsIn returns the names of the tests in the source of a file.
func testsIn(source string) (names []string) {
	for _, declared := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(source, -1) {
		names = append(names, declared[1])
	}
	return names
}
