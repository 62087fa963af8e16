package main

import (
	"go/ast"
	"go/token"
)

// declaredNames returns the identifiers that a file declares: types, functions, methods,
// fields, constants, variables, parameters and results, in the order of the source. It leaves
// out methods whose name an interface of a library prescribes.
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
			if !isLibraryMethod(x) {
				add(x.Name)
			}
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

// isLibraryMethod reports whether a method has the name and the types of Has in labels.Labels and
// fields.Fields of k8s.io/apimachinery, so that its type can implement them.
func isLibraryMethod(x *ast.FuncDecl) bool {
	isType := func(list *ast.FieldList, name string) bool {
		if list.NumFields() != 1 {
			return false
		}
		ident, ok := list.List[0].Type.(*ast.Ident)
		return ok && ident.Name == name
	}
	return x.Recv != nil && x.Name.Name == "Has" && isType(x.Type.Params, "string") && isType(x.Type.Results, "bool")
}
