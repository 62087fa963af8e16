package shape

import (
	"cmp"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/packages"
)

// A Reference leads from a file to another file of its package whose declarations it uses.
type Reference struct{ From, To string }

// compare orders references by file.
func compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// A Use is a place in Reference.From that names a declaration of Reference.To.
type Use struct {
	Position token.Position
	Name     string
}

// A Graph holds the references between the files of one package, with their uses in the
// order of the source.
type Graph map[Reference][]Use

// References returns the graph of a package. Generated files are not part of it.
func References(p *packages.Package) Graph {
	g := Graph{}
	for used, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || !isDeclaration(object, p.Types) {
			continue
		}
		position := p.Fset.Position(used.Pos())
		r := Reference{position.Filename, p.Fset.Position(object.Pos()).Filename}
		if r.From != r.To && !isGenerated(p, r.From) && !isGenerated(p, r.To) {
			g[r] = append(g[r], Use{position, used.Name})
		}
	}
	for _, uses := range g {
		slices.SortFunc(uses, func(a, b Use) int { return cmp.Compare(a.Position.Offset, b.Position.Offset) })
	}
	return g
}

// isDeclaration reports whether an object is declared by the package or is a field or method
// of such a declaration, and is not local to a function.
func isDeclaration(o types.Object, p *types.Package) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == p.Scope()
	}
	return o.Parent() == p.Scope()
}

// Backward returns the references that run against the order of the files, sorted. Almost
// no other order has fewer of them.
func (g Graph) Backward() []Reference {
	order := g.order()
	return g.filter(func(r Reference) bool { return order[r.From] > order[r.To] })
}

// Mutual returns one reference of each pair of files that use each other, sorted.
func (g Graph) Mutual() []Reference {
	return g.filter(func(r Reference) bool {
		_, both := g[Reference{r.To, r.From}]
		return both && r.From < r.To
	})
}

func (g Graph) filter(keep func(Reference) bool) []Reference {
	var kept []Reference
	for r := range g {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, compare)
	return kept
}
