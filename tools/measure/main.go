// Command measure prints the shape of the source: the size of files and functions,
// the methods of the largest types, the longest chain of imports, and, within each
// package, the references between files and how many of them run back up.
//
//	go run -C tools ./measure
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"

	"orrery.dev/orrery/tools/internal/shape"
)

// shown is how many of each list are printed.
const shown = 8

func main() {
	log.SetFlags(0)
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	all, err := shape.Load(root, "./internal/...", "./apis/...", "./cmd/...")
	if err != nil {
		log.Fatal(err)
	}
	m := measure(all)
	if err := m.print(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// count is something and how much of it there is.
type count struct {
	what string
	n    int
}

// measures are of the whole module.
type measures struct {
	files, functions, methods []count
	packages                  []mesh
	chain                     []string
}

// mesh is how the files of one package use each other.
type mesh struct {
	name                 string
	files, lines         int
	arrows, back, mutual int
}

func measure(all []*packages.Package) measures {
	m := measures{chain: longestChain(all)}
	for _, p := range all {
		files := shape.Files(p)
		one := mesh{name: shape.Name(p), files: len(files)}
		for _, f := range files {
			name := p.Fset.Position(f.Pos()).Filename
			lines := p.Fset.File(f.Pos()).LineCount()
			one.lines += lines
			m.files = append(m.files, count{one.name + "/" + filepath.Base(name), lines})
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					m.functions = append(m.functions, count{one.name + "." + fn.Name.Name, linesOf(p.Fset, fn)})
				}
			}
		}
		for t, methods := range shape.Methods(p) {
			m.methods = append(m.methods, count{one.name + "." + t, len(methods)})
		}
		references := shape.References(p)
		one.arrows, one.back, one.mutual = len(references), len(references.Backward()), len(references.Mutual())
		m.packages = append(m.packages, one)
	}
	for _, list := range [][]count{m.files, m.functions, m.methods} {
		slices.SortFunc(list, func(a, b count) int { return cmp.Or(b.n-a.n, cmp.Compare(a.what, b.what)) })
	}
	slices.SortFunc(m.packages, func(a, b mesh) int { return cmp.Or(b.lines-a.lines, cmp.Compare(a.name, b.name)) })
	return m
}

func linesOf(fset *token.FileSet, n ast.Node) int {
	return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
}

// longestChain is the longest way down by imports within the module.
func longestChain(all []*packages.Package) []string {
	ours := map[string]*packages.Package{}
	for _, p := range all {
		ours[p.PkgPath] = p
	}
	known := map[string][]string{}
	var from func(path string) []string
	from = func(path string) []string {
		if c, ok := known[path]; ok {
			return c
		}
		var below []string
		for _, next := range slices.Sorted(maps.Keys(ours[path].Imports)) {
			if ours[next] == nil {
				continue
			}
			if c := from(next); len(c) > len(below) {
				below = c
			}
		}
		known[path] = append([]string{shape.Name(ours[path])}, below...)
		return known[path]
	}
	var longest []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		if c := from(path); len(c) > len(longest) {
			longest = c
		}
	}
	return longest
}

func (m measures) print(to *os.File) error {
	w := &bytes.Buffer{}
	fmt.Fprintf(w, "files\t%d, median %d lines\n", len(m.files), m.files[len(m.files)/2].n)
	for _, list := range []struct {
		what   string
		counts []count
	}{{"largest files, lines", m.files}, {"longest functions, lines", m.functions}, {"types by methods", m.methods}} {
		fmt.Fprintf(w, "%s\t", list.what)
		for _, c := range list.counts[:min(shown, len(list.counts))] {
			fmt.Fprintf(w, "%s %d  ", c.what, c.n)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "longest chain\t%d: %s\n\n", len(m.chain), strings.Join(m.chain, " > "))
	fmt.Fprintln(w, "package\tfiles\tlines\tarrows\tback up\tmutual")
	var arrows, back, both int
	for _, p := range m.packages {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", p.name, p.files, p.lines, p.arrows, p.back, p.mutual)
		arrows, back, both = arrows+p.arrows, back+p.back, both+p.mutual
	}
	fmt.Fprintf(w, "all\t%d\t\t%d\t%d\t%d\n", len(m.files), arrows, back, both)
	table := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	if _, err := w.WriteTo(table); err != nil {
		return err
	}
	return table.Flush()
}
