// Package orrery_test guards the shape of the source: which package may import
// which, what each says of itself, and what an agent must not carry.
package orrery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "orrery.dev/orrery"
	// maxLines is for files that people write.
	maxLines = 800
)

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Doc  string
	Standard         bool
	GoFiles, Imports []string
}

// rel returns the path of the package in the module, and whether it is of it.
func (p listed) rel() (string, bool) { return strings.CutPrefix(p.ImportPath, module+"/") }

func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Doc,Standard,GoFiles,Imports"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var packages []listed
	for dec := json.NewDecoder(out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the answer of go list: %v", err)
		}
		packages = append(packages, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	return packages
}

// free reports whether a package is outside the wings: mains and tests may import every
// package, and no other package may import them.
func free(pkg string) bool { return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "test/") }

// wings reads the table in internal/README.md: the wings, which are folders, by their order.
func wings(t *testing.T) map[string]int {
	t.Helper()
	doc, err := os.ReadFile("internal/README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]int{}
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\|")
	for _, match := range row.FindAllStringSubmatch(string(doc), -1) {
		order, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(match[2]); err != nil || !info.IsDir() {
			t.Errorf("internal/README.md has a row for %s, which is not there", match[2])
		}
		table[match[2]] = order
	}
	if len(table) == 0 {
		t.Fatal("internal/README.md has no table of wings")
	}
	return table
}

// wingOf is the innermost wing that a package is in; empty: none.
func wingOf(table map[string]int, pkg string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, ok := table[pkg]; ok {
			return pkg
		}
	}
	return ""
}

// TestWingsImportDownward shows that a package imports packages of its own wing and of wings
// with a lower order. Hub and agent share the protocol, and import nothing of each other.
func TestWingsImportDownward(t *testing.T) {
	table := wings(t)
	for _, p := range goList(t, "./...") {
		pkg, ok := p.rel()
		if !ok || free(pkg) {
			continue
		}
		wing := wingOf(table, pkg)
		if wing == "" {
			t.Errorf("%s is in no wing of internal/README.md", pkg)
			continue
		}
		for _, imported := range p.Imports {
			below, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			other := wingOf(table, below)
			apart := strings.HasPrefix(wing, "internal/hub") && other == "internal/agent"
			if free(below) || apart || other != wing && table[other] >= table[wing] {
				t.Errorf("%s (wing %q) imports %s (wing %q)", pkg, wing, below, other)
			}
		}
	}
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for _, p := range goList(t, "./...") {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// An agent runs at every location; the libraries of the hub would make it several
// times as large.
func TestAgentStaysSmall(t *testing.T) {
	for _, p := range goList(t, "-deps", "./cmd/orrery-agent") {
		for _, heavy := range []string{"k8s.io/apiserver", "go.etcd.io/etcd", "github.com/google/cel-go", module + "/internal/hub"} {
			if p.ImportPath == heavy || strings.HasPrefix(p.ImportPath, heavy+"/") {
				t.Errorf("orrery-agent links %s", p.ImportPath)
			}
		}
	}
}

// The linters' list of packages whose clock is a parameter is by path, and a path
// that leads nowhere checks nothing.
func TestLintersNamePackagesThatAreThere(t *testing.T) {
	settings, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`\^internal/\(([^)]+)\)/`).FindSubmatch(settings)
	if list == nil {
		t.Fatal("no list of packages in .golangci.yml")
	}
	for pkg := range strings.SplitSeq(string(list[1]), "|") {
		pkg = strings.TrimLeft(pkg, "\\\n ") // where the line is broken
		if files, err := filepath.Glob(filepath.Join("internal", pkg, "*.go")); err != nil || len(files) == 0 {
			t.Errorf(".golangci.yml names internal/%s, which is not there", pkg)
		}
	}
}

func TestSourceFiles(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		return checkFile(t, path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path string) error {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", path, err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	if lines := files.File(file.FileStart).LineCount(); lines > maxLines {
		t.Errorf("%s has %d lines, more than %d: split it", path, lines, maxLines)
	}
	if !strings.HasPrefix(path, "internal/") {
		return nil
	}
	checkNames(t, files, file, path)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			t.Errorf("%s has an init function: what a package needs is passed to it", files.Position(f.Pos()))
		}
	}
	return nil
}

var (
	// texts are the packages in which the name of a location or space may be text: what
	// people type, and what hub and agent send each other as JSON.
	texts = regexp.MustCompile(`^internal/(cli|cli/demo|agent/cli|protocol/wire)/[^/]+$|_test\.go$`)
	// named is what a location or space, or several, are called.
	named = regexp.MustCompile(`(?i)^(location|space)s?$`)
)

// checkNames refuses variables, parameters and fields that are called after locations or
// spaces and are strings, maps by string or lists of them. Fields of JSON are text.
func checkNames(t *testing.T, files *token.FileSet, file *ast.File, path string) {
	t.Helper()
	if texts.MatchString(path) {
		return
	}
	isText := func(e ast.Expr) bool {
		switch x := e.(type) {
		case *ast.ArrayType:
			e = x.Elt
		case *ast.MapType:
			e = x.Key
		case *ast.Ellipsis:
			e = x.Elt
		}
		id, ok := e.(*ast.Ident)
		return ok && id.Name == "string"
	}
	check := func(all []*ast.Ident, as ast.Expr) {
		for _, n := range all {
			if named.MatchString(n.Name) && isText(as) {
				t.Errorf("%s: %s is text: want key.Location or key.Space", files.Position(n.Pos()), n.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			if x.Tag == nil {
				check(x.Names, x.Type)
			}
		case *ast.ValueSpec:
			check(x.Names, x.Type)
		}
		return true
	})
}
