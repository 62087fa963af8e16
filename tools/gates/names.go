package main

import (
	"go/ast"
	"go/token"
)

// declaredNames returns the identifiers that a file declares: types, functions, methods,
// fields, constants, variables, parameters and results, in the order of the source.
//
// Every name on the left of := counts: without type information, new and reused names look the
// same.
func declaredNames(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	add := func(all ...ast.Expr) {
		for _, e := range all {
			if name, ok := e.(*ast.Ident); ok && name.Name != "_" {
				names = append(names, name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			add(x.Name)
		case *ast.TypeSpec:
			add(x.Name)
		case *ast.ValueSpec:
			addAll(add, x.Names)
		case *ast.Field:
			addAll(add, x.Names)
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE {
				add(x.Lhs...)
			}
		case *ast.RangeStmt:
			if x.Tok == token.DEFINE {
				add(x.Key, x.Value)
			}
		}
		return true
	})
	return names
}

func addAll(add func(...ast.Expr), names []*ast.Ident) {
	for _, name := range names {
		add(name)
	}
}
