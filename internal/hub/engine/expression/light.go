package expression

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

const (
	// maxLight bounds how many parts an expression has that is light.
	maxLight = 64
	// LightCost is what a light expression costs at most, as it would be counted.
	LightCost = 2 * maxLight
)

// light reports whether an expression takes negligible time for all variables, and its size in nodes: it
// selects fields, compares them with literals, and combines the results. Counting its cost would take longer
// than its evaluation.
func light(e ast.Expr) (nodes int, ok bool) {
	left := maxLight
	ok = isLight(e, &left)
	return maxLight - left, ok
}

func isLight(e ast.Expr, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch e.Kind() {
	case ast.IdentKind:
		return true
	case ast.LiteralKind:
		return true
	case ast.SelectKind:
		return isLight(e.AsSelect().Operand(), left)
	case ast.CallKind:
		c := e.AsCall()
		return (!c.IsMemberFunction() || isLight(c.Target(), left)) && isLightCall(c) && allLight(c.Args(), left)
	}
	return false
}

func allLight(all []ast.Expr, left *int) bool {
	for _, e := range all {
		if !isLight(e, left) {
			return false
		}
	}
	return true
}

func isLightCall(c ast.CallExpr) bool {
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse,
		operators.Index, operators.OptIndex, operators.OptSelect, "orValue", "or", "hasValue", "value":
		return true
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return isScalar(c.Args()[0]) || isScalar(c.Args()[1])
	}
	return false
}

// isScalar reports whether an operand is a literal that can be compared in time proportional to its
// length.
func isScalar(e ast.Expr) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	switch e.AsLiteral().(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Null:
		return true
	}
	return false
}
