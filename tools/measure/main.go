// Command measure prints how the source is built: the size of files and functions,
// the methods of the largest types, how far imports reach down, and, within each
// package, the arrows between files and how many of them must run back up.
//
// It is run in the root of the module: go run -C tools ./measure.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

const (
	// shown is how many of each list are printed.
	shown = 8
	// needed is what is read of each package.
	needed = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule
)

func main() {
	log.SetFlags(0)
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	all, err := packages.Load(&packages.Config{Mode: needed, Dir: root}, "./internal/...", "./apis/...", "./cmd/...")
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(all) > 0 {
		os.Exit(1)
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
		one := mesh{name: short(p), files: len(p.Syntax)}
		methods := map[string]int{}
		for _, f := range p.Syntax {
			name := p.Fset.Position(f.Pos()).Filename
			lines := p.Fset.File(f.Pos()).LineCount()
			if generated(name) {
				one.files--
				continue
			}
			one.lines += lines
			m.files = append(m.files, count{one.name + "/" + filepath.Base(name), lines})
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				m.functions = append(m.functions, count{one.name + "." + fn.Name.Name, linesOf(p.Fset, fn)})
				if fn.Recv != nil {
					methods[receiver(fn.Recv.List[0].Type)]++
				}
			}
		}
		for t, n := range methods {
			m.methods = append(m.methods, count{one.name + "." + t, n})
		}
		uses := usesOf(p)
		one.arrows, one.back, one.mutual = len(uses), backward(uses), mutual(uses)
		m.packages = append(m.packages, one)
	}
	for _, list := range [][]count{m.files, m.functions, m.methods} {
		slices.SortFunc(list, func(a, b count) int { return cmp.Or(b.n-a.n, cmp.Compare(a.what, b.what)) })
	}
	slices.SortFunc(m.packages, func(a, b mesh) int { return cmp.Or(b.lines-a.lines, cmp.Compare(a.name, b.name)) })
	return m
}

// short is a package's path in the module.
func short(p *packages.Package) string { return strings.TrimPrefix(p.PkgPath, p.Module.Path+"/") }

func generated(file string) bool { return strings.HasPrefix(filepath.Base(file), "zz_generated") }

func linesOf(fset *token.FileSet, n ast.Node) int {
	return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// arrow says that one file uses what another one of its package declares.
type arrow struct{ from, to string }

func usesOf(p *packages.Package) map[arrow]bool {
	all := map[arrow]bool{}
	for used, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || !declared(object, p.Types) {
			continue
		}
		from, to := p.Fset.Position(used.Pos()).Filename, p.Fset.Position(object.Pos()).Filename
		if from != to && !generated(from) && !generated(to) {
			all[arrow{from, to}] = true
		}
	}
	return all
}

// declared says that an object is one of the package's own, or a field or method of
// one, and not a variable of a function.
func declared(o types.Object, p *types.Package) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == p.Scope()
	}
	return o.Parent() == p.Scope()
}

// backward is how many arrows run against the order of files that the heuristic of
// Eades, Lin and Smyth ("A fast and effective heuristic for the feedback arc set
// problem", 1993) finds: at least the best order needs no more.
func backward(all map[arrow]bool) int {
	order := map[string]int{}
	out, in := map[string]int{}, map[string]int{}
	left := map[string]bool{}
	for a := range all {
		left[a.from], left[a.to] = true, true
		out[a.from]++
		in[a.to]++
	}
	take := func(f string) {
		delete(left, f)
		for a := range all {
			if a.from == f && left[a.to] {
				in[a.to]--
			} else if a.to == f && left[a.from] {
				out[a.from]--
			}
		}
	}
	first, last := 0, len(left)
	for len(left) > 0 {
		names := slices.Sorted(maps.Keys(left))
		best := names[0]
		for _, f := range names {
			if out[f] == 0 { // it uses nothing that is left: the bottom
				best = f
				break
			}
			if out[f]-in[f] > out[best]-in[best] {
				best = f
			}
		}
		if out[best] == 0 {
			order[best] = last
			last--
		} else {
			order[best] = first
			first++
		}
		take(best)
	}
	n := 0
	for a := range all {
		if order[a.from] > order[a.to] {
			n++
		}
	}
	return n
}

// mutual is how many pairs of files use each other.
func mutual(all map[arrow]bool) int {
	n := 0
	for a := range all {
		if a.from < a.to && all[arrow{a.to, a.from}] {
			n++
		}
	}
	return n
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
			if c := []string(nil); ours[next] != nil {
				if c = from(next); len(c) > len(below) {
					below = c
				}
			}
		}
		known[path] = append([]string{short(ours[path])}, below...)
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
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "files\t%d, median %d lines\n", len(m.files), m.files[len(m.files)/2].n)
	for _, list := range []struct {
		what string
		of   []count
	}{{"largest files, lines", m.files}, {"longest functions, lines", m.functions}, {"types by methods", m.methods}} {
		fmt.Fprintf(w, "%s\t", list.what)
		for _, c := range list.of[:min(shown, len(list.of))] {
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
	return w.Flush()
}
