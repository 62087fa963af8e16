// Package celmacro describes macros of CEL, for estimates of what an expression costs. It evaluates nothing.
package celmacro

import (
	"slices"

	"github.com/google/cel-go/common/ast"
)

// BoundBy returns the variables that a macro binds, and the expression that it evaluates for their values. It
// returns none if the call is no such macro.
func BoundBy(macro string, args []ast.Expr) (variables []string, step ast.Expr) {
	if !slices.Contains([]string{
		"map", "filter", "all", "exists", "exists_one", "existsOne", "sortBy", "optMap", "optFlatMap", "bind",
		"transformList", "transformMap", "transformMapEntry",
	}, macro) || len(args) < 2 {
		return nil, nil
	}
	for _, arg := range args[:len(args)-1] {
		if arg.Kind() != ast.IdentKind {
			break
		}
		variables = append(variables, arg.AsIdent())
	}
	return variables, args[len(args)-1]
}
