package shape

import (
	"go/ast"

	"golang.org/x/tools/go/packages"
)

// Methods returns the methods of each type that a package declares, by the name of the type,
// in the order of the source. Value and pointer receivers count together.
func Methods(p *packages.Package) map[string][]*ast.FuncDecl {
	all := map[string][]*ast.FuncDecl{}
	for _, f := range Files(p) {
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				name := receiver(m.Recv.List[0].Type)
				all[name] = append(all[name], m)
			}
		}
	}
	return all
}

// receiver returns the name of the type in a receiver, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}
