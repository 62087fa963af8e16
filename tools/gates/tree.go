package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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
	isCI     bool                                // a gate that cannot read the history fails
	packages func() ([]*packages.Package, error) // production packages of the main module, with types
	sources  func() ([]source, error)            // Go files of all modules, tests too, that people write
	markdown func() ([]page, error)              // documents that people maintain
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

// files returns the sorted paths of files with an extension, below the root. It leaves out
// testdata, directories that the go command ignores, generated files, and files that git ignores.
func files(root, extension string) ([]string, error) {
	all, err := listFiles(root)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range all {
		if path.Ext(name) == extension && !isHidden(path.Dir(name)) && !shape.IsGenerated(name) && isRegular(filepath.Join(root, name)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil // git lists a file with a merge conflict several times
}

// listFiles returns all tracked files, and untracked files that git does not ignore. If root is no
// git checkout, it returns all files.
func listFiles(root string) ([]string, error) {
	if checkoutFault(root) != nil {
		return walkFiles(root)
	}
	list, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == 0 }), nil
}

func walkFiles(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(root, name)
		found = append(found, filepath.ToSlash(below))
		return err
	})
	return found, err
}

// isHidden reports whether a directory is testdata, or the go command ignores it.
func isHidden(dir string) bool {
	for name := range strings.SplitSeq(dir, "/") {
		if name != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) || name == "testdata" {
			return true
		}
	}
	return false
}

// isRegular reports whether a file exists and is neither a directory nor a link.
func isRegular(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

func readSources(root string) ([]source, error) {
	paths, err := files(root, ".go")
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var all []source
	for _, name := range paths {
		syntax, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %w", err)
		}
		all = append(all, source{name, fset, syntax})
	}
	return all, nil
}

// historyFolder has the records of past design decisions. They are kept as they were written.
const historyFolder = "docs/design/history/"

func readPages(root string) ([]page, error) {
	paths, err := files(root, ".md")
	if err != nil {
		return nil, err
	}
	var all []page
	for _, name := range paths {
		if strings.HasPrefix(name, historyFolder) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		all = append(all, page{name, data})
	}
	return all, nil
}
