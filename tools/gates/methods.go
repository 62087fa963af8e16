package main

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"orrery.dev/orrery/tools/internal/shape"
)

// maxMethods is the goal for a type.
const maxMethods = 25

// measureMethods counts the methods of each type in production packages.
func measureMethods(t *tree) (result, error) {
	all, err := t.packages()
	if err != nil {
		return result{}, err
	}
	var types []subject
	for _, p := range all {
		types = append(types, typesOf(t.root, p)...)
	}
	return result{subjects: sorted(types)}, nil
}

func typesOf(root string, p *packages.Package) []subject {
	var types []subject
	for name, methods := range shape.Methods(p) {
		types = append(types, subject{
			name: shape.Name(p) + "." + name, figure: len(methods), goal: maxMethods, findings: methodsByFile(root, p, methods),
		})
	}
	return types
}

// methodsByFile returns a finding for each file with methods of a type, those with most
// first: what one file holds is a candidate for a type of its own.
func methodsByFile(root string, p *packages.Package, methods []*ast.FuncDecl) []finding {
	names := map[string][]string{}
	var all []finding
	for _, m := range methods {
		position := p.Fset.Position(m.Pos())
		file := below(root, position.Filename)
		if names[file] == nil {
			all = append(all, finding{file: file, line: position.Line})
		}
		names[file] = append(names[file], m.Name.Name)
	}
	slices.SortStableFunc(all, func(a, b finding) int { return len(names[b.file]) - len(names[a.file]) })
	for i, f := range all {
		all[i].text = fmt.Sprintf("%d methods: %s", len(names[f.file]), strings.Join(names[f.file], ", "))
	}
	return all
}

// below returns the path of a file below the root, with slashes.
func below(root, file string) string {
	if absolute, err := filepath.Abs(root); err == nil {
		if path, err := filepath.Rel(absolute, file); err == nil {
			return filepath.ToSlash(path)
		}
	}
	return file
}

// sorted returns subjects in the order of their names.
func sorted(all []subject) []subject {
	slices.SortFunc(all, func(a, b subject) int { return strings.Compare(a.name, b.name) })
	return all
}
