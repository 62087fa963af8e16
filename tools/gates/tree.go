package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"

	"orrery.dev/orrery/tools/internal/shape"
)

// A tree is the working tree of the repository. Each part is read once, when a gate first
// needs it; gates use it concurrently.
type tree struct {
	root     string
	packages func() ([]*packages.Package, error) // production packages of the main module, with types
	sources  func() ([]source, error)            // Go files of all modules, tests too, that people write
	markdown func() ([]page, error)              // documents that people write
	changes  func() changes
}

// A source is a Go file.
type source struct {
	path   string // below the root, with slashes
	fset   *token.FileSet
	syntax *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) lines() int { return s.fset.File(s.syntax.FileStart).LineCount() }

// line returns the line of a position in the file.
func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// A page is a Markdown file.
type page struct {
	path string // below the root, with slashes
	data []byte
}

func newTree(root string) *tree {
	return &tree{
		root: root,
		packages: sync.OnceValues(func() ([]*packages.Package, error) {
			return shape.Load(root, "./internal/...", "./apis/...", "./cmd/...", "./views")
		}),
		sources:  sync.OnceValues(func() ([]source, error) { return readSources(root) }),
		markdown: sync.OnceValues(func() ([]page, error) { return readPages(root) }),
		changes:  sync.OnceValue(func() changes { return readChanges(root) }),
	}
}

// files returns the paths of files with an extension, below the root. It leaves out
// testdata, and directories that the go command ignores.
func files(root, extension string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata") {
				return fs.SkipDir
			}
		case filepath.Ext(name) == extension && d.Type().IsRegular():
			path, err := filepath.Rel(root, name)
			found = append(found, filepath.ToSlash(path))
			return err
		}
		return nil
	})
	return found, err
}

func readSources(root string) ([]source, error) {
	paths, err := files(root, ".go")
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var all []source
	for _, path := range paths {
		syntax, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %w", err)
		}
		if !ast.IsGenerated(syntax) {
			all = append(all, source{path, fset, syntax})
		}
	}
	return all, nil
}

// generatedPages are documents that the gates leave out: make generate writes them from
// comments, which count where they are.
func generatedPages() []string { return []string{"docs/reference.md"} }

func readPages(root string) ([]page, error) {
	paths, err := files(root, ".md")
	if err != nil {
		return nil, err
	}
	var all []page
	for _, path := range paths {
		if slices.Contains(generatedPages(), path) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		all = append(all, page{path, data})
	}
	return all, nil
}
