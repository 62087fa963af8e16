package expression

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// maxMade bounds what one call makes, in bytes: what is larger costs more than an
	// expression may.
	maxMade = maxSteps
	// maxPrecision bounds the digits that a format asks for.
	maxPrecision = 100
)

// boundPatterns are options for an environment by which it refuses regular expressions that are
// too dear, also those that the library would compile before the expression is evaluated.
func boundPatterns(env *cel.Env) (opts []cel.EnvOption, err error) {
	for _, name := range []string{"find", "findAll"} {
		f := env.Functions()[name]
		if f == nil {
			return nil, fmt.Errorf("there is no function %s", name)
		}
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		overloads := map[string]*functions.Overload{}
		for _, b := range bindings {
			overloads[b.Operator] = b
		}
		opts = append(opts, finding(name, f, overloads)...)
	}
	return append(opts, matching()...), nil
}

// bindingOf is the binding of a function of some number of arguments.
func bindingOf(args int, fn func(...ref.Val) ref.Val) cel.OverloadOpt {
	switch args {
	case 1:
		return cel.UnaryBinding(func(v ref.Val) ref.Val { return fn(v) })
	case 2:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val { return fn(a, b) })
	}
	return cel.FunctionBinding(fn)
}

// apply calls an overload.
func apply(b *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case len(args) == 1 && b.Unary != nil:
		return b.Unary(args[0])
	case len(args) == 2 && b.Binary != nil:
		return b.Binary(args[0], args[1])
	case b.Function != nil:
		return b.Function(args...)
	}
	return types.NewErr("no such overload")
}

func textIn(v ref.Val) string {
	text, _ := v.(types.String)
	return string(text)
}

// replaced is about how many bytes replace makes.
func replaced(args []ref.Val) int {
	text, old, with := textIn(args[0]), textIn(args[1]), textIn(args[2])
	n := utf8.RuneCountInString(text) + 1
	if old != "" {
		n = strings.Count(text, old)
	}
	if len(args) > 3 {
		if most, ok := args[3].(types.Int); ok && most >= 0 {
			n = min(n, int(most))
		}
	}
	return len(text) + n*max(0, len(with)-len(old))
}

// joined is how many bytes join makes, counted until they are too many.
func joined(args []ref.Val) (size int) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return 0
	}
	between := 0
	if len(args) > 1 {
		between = len(textIn(args[1]))
	}
	for it := list.Iterator(); it.HasNext() == types.True && size <= maxMade; {
		size += between + len(textIn(it.Next()))
	}
	return size
}

// formatted is no less than about how many bytes format makes.
func formatted(args []ref.Val) int {
	text := textIn(args[0])
	size := len(text)
	for _, after := range strings.Split(text, "%.")[1:] {
		digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
		if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n > maxPrecision) {
			return maxMade + 1
		}
		size += maxPrecision
	}
	weigh(args[1], &size)
	return size
}

// weigh adds about how many bytes a value has as a text, until they are too many.
func weigh(v ref.Val, size *int) {
	const scalar = 16
	if *size += scalar; *size > maxMade {
		return
	}
	switch v := v.(type) {
	case types.String:
		*size += len(v)
	case types.Bytes:
		*size += len(v)
	case *types.Optional:
		if v.HasValue() {
			weigh(v.GetValue(), size)
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && *size <= maxMade; {
			weigh(it.Next(), size)
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && *size <= maxMade; {
			k := it.Next()
			weigh(k, size)
			weigh(v.Get(k), size)
		}
	}
}

// flattened is how many elements flatten makes, counted until they are too many.
func flattened(args []ref.Val) (n int) {
	depth := types.Int(1)
	if len(args) > 1 {
		depth, _ = args[1].(types.Int)
	}
	var count func(v ref.Val, depth types.Int)
	count = func(v ref.Val, depth types.Int) {
		list, ok := v.(traits.Lister)
		if n++; !ok || depth < 0 {
			return
		}
		for it := list.Iterator(); it.HasNext() == types.True && n <= maxMade; {
			count(it.Next(), depth-1)
		}
	}
	count(args[0], depth)
	return n
}

// lengthOf is that of a list.
func lengthOf(v ref.Val) int {
	if list, ok := v.(traits.Lister); ok {
		if n, ok := list.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 0
}

// searched is what it costs to look for a regular expression in a text: as Kubernetes counts,
// but by the states that it has if they are more than its bytes. (y?){999} has 2,000.
func searched(args []ref.Val) int {
	text, pattern := textIn(args[0]), textIn(args[1])
	cost := func(states int) int {
		return int(math.Ceil(float64(1+len(text))*common.StringTraversalCostFactor) * math.Ceil(float64(states)*common.RegexStringLengthCostFactor))
	}
	if c := cost(len(pattern)); c > MaxCost {
		return c
	}
	states := len(pattern)
	if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		if program, err := syntax.Compile(parsed.Simplify()); err == nil {
			states = max(states, len(program.Inst))
		}
	}
	return cost(states)
}

// madeCost is what the result of a call costs by its size, of functions of which CEL does not
// count it.
func madeCost(function string, args []ref.Val, result ref.Val) uint64 {
	switch function {
	case operators.Add:
		if _, accumulates := args[0].(traits.MutableLister); !accumulates { // a macro's own
			return 1 + uint64(lengthOf(result)) // #nosec G115 -- no length is negative
		}
	case "replace", "format":
		return uint64(len(textIn(result)) / 10)
	case boundMatches, boundPrefix + "find", boundPrefix + "findAll":
		return uint64(searched(args)) // #nosec G115 -- no cost is negative
	}
	return 0
}

// boundMatches is what calls of matches become: its own binding is one for all overloads,
// which can't be replaced.
const boundMatches = boundPrefix + "matches"

// finding are options by which calls of a function are those of one with another name: with a
// pattern that is a literal, the library has them bypass their bindings.
func finding(name string, f *decls.FunctionDecl, overloads map[string]*functions.Overload) (opts []cel.EnvOption) {
	for _, o := range f.OverloadDecls() {
		bound := bindingOf(len(o.ArgTypes()), func(args ...ref.Val) ref.Val {
			return apply(overloads[o.ID()], args)
		})
		opts = append(opts,
			cel.Function(boundPrefix+name, cel.Overload(boundPrefix+o.ID(), o.ArgTypes(), o.ResultType(), bound)),
			cel.Macros(cel.ReceiverMacro(name, len(o.ArgTypes())-1, func(h cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
				return h.NewCall(boundPrefix+name, append([]ast.Expr{target}, args...)...), nil
			})))
	}
	return opts
}

// matching are options by which matches is bounded, too.
func matching() []cel.EnvOption {
	become := func(h cel.MacroExprFactory, text, pattern ast.Expr) (ast.Expr, *cel.Error) {
		if pattern.Kind() == ast.LiteralKind {
			if literal, ok := pattern.AsLiteral().(types.String); ok {
				if _, err := regexp.Compile(string(literal)); err != nil {
					return nil, h.NewError(pattern.ID(), "invalid matches argument")
				}
			}
		}
		return h.NewCall(boundMatches, text, pattern), nil
	}
	return []cel.EnvOption{
		cel.Macros(
			cel.ReceiverMacro("matches", 1, func(h cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
				return become(h, target, args[0])
			}),
			cel.GlobalMacro("matches", 2, func(h cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
				return become(h, args[0], args[1])
			})),
		cel.Function(boundMatches, cel.Overload("orrery_matches_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(func(text, pattern ref.Val) ref.Val {
				return text.(types.String).Match(pattern)
			}))),
	}
}
