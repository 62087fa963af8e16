package expression

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"orrery.dev/orrery/internal/lib/celmacro"
)

const (
	// maxGrowth bounds how often a value that a rule makes may have what it is made of in it.
	maxGrowth = 200
	// perLoop is how many elements a loop counts for at least. Data may have more, but not more
	// levels of loops than these give.
	perLoop = 4
)

// CheckGrowth fails if an expression makes a value that has the same part in it more than
// maxGrowth times. It is for the rules of CustomResourceDefinitions, which the library of
// Kubernetes evaluates: it counts a comparison of such values by their outermost list alone.
// What is no expression is for that library to refuse.
//
// It goes by the text alone, in which a loop over data has perLoop elements. So three loops within each
// other may each have in their values what an outer one has made, and no more.
func CheckGrowth(text string) error {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.PopulateMacroCalls(false))
	if err != nil {
		return fmt.Errorf("make a parser of expressions: %w", err)
	}
	parsed, issues := p.Parse(common.NewTextSource(text))
	if len(issues.GetErrors()) > 0 {
		return nil
	}
	g := growth{}
	g.sizeOf(parsed.Expr(), nil)
	if g.most > maxGrowth {
		return fmt.Errorf("makes a value in which the same part may be %.0f times or more, by lists or objects that have another one in them several times; "+
			"compare what they are made of instead", min(g.most, 1e9))
	}
	return nil
}

// growth computes how often the parts of values are in them.
type growth struct{ most float64 }

// size is that of a value: of all of it, and of its largest element. Data has size 1, and a
// literal has none.
type size struct{ all, element float64 }

func (g *growth) sizeOf(e ast.Expr, scope map[string]size) (s size) {
	defer func() { g.most = max(g.most, s.all) }()
	switch e.Kind() {
	case ast.IdentKind:
		if bound, ok := scope[e.AsIdent()]; ok {
			return bound
		}
		return size{1, 1}
	case ast.SelectKind:
		s = g.sizeOf(e.AsSelect().Operand(), scope)
		return size{s.element, s.element}
	case ast.ListKind:
		return g.literal(e.AsList().Elements(), scope)
	case ast.MapKind:
		var values []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			values = append(values, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return g.literal(values, scope)
	case ast.CallKind:
		return g.call(e.AsCall(), scope)
	}
	return size{}
}

// literal is the size of a list or an object with some values.
func (g *growth) literal(values []ast.Expr, scope map[string]size) (s size) {
	for _, v := range values {
		one := g.sizeOf(v, scope)
		s.all += one.all
		s.element = max(s.element, one.all)
	}
	s.all = max(s.all, 1)
	s.element = max(s.element, 1)
	return s
}

// scalarCalls give a value without parts.
var scalarCalls = []string{
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In,
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Negate, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
	"has", "size", "string", "int", "uint", "double", "bool", "contains", "startsWith", "endsWith", "matches", "join", "indexOf", "lastIndexOf", "hasValue",
	"all", "exists", "exists_one", "existsOne", "isSorted", "sum",
}

func (g *growth) call(c ast.CallExpr, scope map[string]size) size {
	var target size
	args := c.Args()
	if c.IsMemberFunction() {
		target = g.sizeOf(c.Target(), scope)
		if variables, step := celmacro.BoundBy(c.FunctionName(), args); step != nil {
			return g.comprehension(c, target, variables, step, scope)
		}
	}
	all := []size{target}
	for _, arg := range args {
		all = append(all, g.sizeOf(arg, scope))
	}
	if slices.Contains(scalarCalls, c.FunctionName()) {
		return size{}
	}
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return size{all[1].element, all[1].element}
	case operators.Conditional:
		return size{max(all[2].all, all[3].all), max(all[2].element, all[3].element)}
	}
	var sum size
	for _, s := range all {
		sum.all += s.all
		sum.element = max(sum.element, s.element)
	}
	if c.FunctionName() != operators.Add {
		sum.element = sum.all // it may have flattened lists
	}
	return sum
}

func (g *growth) comprehension(c ast.CallExpr, over size, variables []string, step ast.Expr, scope map[string]size) size {
	bound := size{over.element, over.element}
	between := c.Args()[len(variables) : len(c.Args())-1] // a filter, or what bind binds
	switch c.FunctionName() {
	case "optMap", "optFlatMap":
		bound = over
	case "bind":
		if len(between) > 0 {
			bound, between = g.sizeOf(between[0], scope), between[1:]
		}
	}
	inside := maps.Clone(scope)
	if inside == nil {
		inside = map[string]size{}
	}
	for _, v := range variables {
		inside[v] = bound
	}
	for _, e := range between {
		g.sizeOf(e, inside)
	}
	made := g.sizeOf(step, inside)
	switch c.FunctionName() {
	case "all", "exists", "exists_one", "existsOne":
		return size{}
	case "filter", "sortBy":
		return over
	case "optMap", "optFlatMap", "bind":
		return made
	}
	elements := max(perLoop, over.all/max(1, over.element))
	return size{max(1, made.all*elements), max(1, made.all)}
}
