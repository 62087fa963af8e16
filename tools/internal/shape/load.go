// Package shape measures how Go packages are built: the methods of their types, and the
// references between their files.
package shape

import (
	"errors"
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// loadMode leaves out NeedDeps: types of dependencies come from export data in the build
// cache, which is several times as fast as type-checking their source.
const loadMode = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
	packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule

// maxErrors is how many errors Load reports of packages that do not compile.
const maxErrors = 5

// Load returns the packages that match the patterns in the module at root, with syntax and
// types. It fails if one of them does not compile.
func Load(root string, patterns ...string) ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{Mode: loadMode, Dir: root}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load %s in %q: %w", strings.Join(patterns, " "), root, err)
	}
	var failed []error
	for _, p := range all {
		for _, e := range p.Errors {
			failed = append(failed, e)
		}
	}
	if len(failed) > maxErrors {
		failed = append(failed[:maxErrors], fmt.Errorf("and %d more errors", len(failed)-maxErrors))
	}
	return all, errors.Join(failed...)
}

// Name returns the path of a package in its module.
func Name(p *packages.Package) string {
	return strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")
}

// Generated returns the files that make generate writes, below the root of the repository. CI
// checks that they are as generated, so no other text can be in them. A name or a comment does not
// make any other file a generated one.
func Generated() []string {
	return []string{"apis/v1alpha1/zz_generated.deepcopy.go", "docs/reference.md"}
}

// IsGenerated reports whether make generate writes a file, which is a path below the root of the
// repository, with slashes.
func IsGenerated(file string) bool { return slices.Contains(Generated(), file) }

// isGenerated reports whether make generate writes a file of a package.
func isGenerated(p *packages.Package, file string) bool {
	return IsGenerated(Name(p) + "/" + filepath.Base(file))
}

// Files returns the files of a package that people write.
func Files(p *packages.Package) []*ast.File {
	var files []*ast.File
	for _, f := range p.Syntax {
		if !isGenerated(p, p.Fset.Position(f.Package).Filename) {
			files = append(files, f)
		}
	}
	return files
}
