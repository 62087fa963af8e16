package rules

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// uses is what an expression uses of a variable: fields, what it uses of these, and so on.
// One without fields is used as a whole, but at the top: there it is not used.
type uses struct {
	whole  bool
	fields map[string]*uses
}

func (u uses) none() bool { return !u.whole && len(u.fields) == 0 }

// add adds what is at a path.
func (u *uses) add(path []string) {
	for _, name := range path {
		if u.fields == nil {
			u.fields = map[string]*uses{}
		}
		if u.fields[name] == nil {
			u.fields[name] = &uses{}
		}
		u = u.fields[name]
	}
	u.whole = true
}

func (u *uses) merge(o uses) {
	u.whole = u.whole || o.whole
	for name, below := range o.fields {
		if u.fields == nil {
			u.fields = map[string]*uses{}
		}
		if u.fields[name] == nil {
			u.fields[name] = &uses{}
		}
		u.fields[name].merge(*below)
	}
}

// pick is the part of a value that is used. An expression that uses no more than that
// can't tell it from the whole.
func (u uses) pick(v any) any {
	fields, ok := v.(map[string]any)
	if u.whole || !ok {
		return v
	}
	picked := map[string]any{}
	for name, below := range u.fields {
		if value, ok := fields[name]; ok {
			picked[name] = below.pick(value)
		}
	}
	return picked
}

// using collects what an expression uses of variables.
type using struct {
	all map[string]*uses
	// bound are the variables of the comprehensions around.
	bound []string
}

func (u *using) of(variable string) uses {
	if found := u.all[variable]; found != nil {
		return *found
	}
	return uses{}
}

// expression adds what an expression uses.
func (u *using) expression(e ast.Expr) {
	if variable, path, ok := u.chain(e); ok {
		u.add(variable, path)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		u.expression(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			u.expression(call.Target())
		}
		u.expressions(call.Args())
	case ast.ListKind:
		u.expressions(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			u.expression(entry.AsMapEntry().Key())
			u.expression(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			u.expression(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		u.expression(c.IterRange())
		u.expression(c.AccuInit())
		outside := len(u.bound)
		u.bound = append(u.bound, c.IterVar(), c.IterVar2(), c.AccuVar())
		u.expressions([]ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()})
		u.bound = u.bound[:outside]
	}
}

func (u *using) expressions(all []ast.Expr) {
	for _, e := range all {
		u.expression(e)
	}
}

func (u *using) add(variable string, path []string) {
	if u.all == nil {
		u.all = map[string]*uses{}
	}
	if u.all[variable] == nil {
		u.all[variable] = &uses{}
	}
	u.all[variable].add(path)
}

// chain is the variable and the path below it that an expression is; ok is false if it is
// anything else.
func (u *using) chain(e ast.Expr) (variable string, path []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), nil, !slices.Contains(u.bound, e.AsIdent())
	case ast.SelectKind:
		variable, path, ok = u.chain(e.AsSelect().Operand())
		return variable, append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) || len(call.Args()) != 2 {
			return "", nil, false
		}
		if by := call.Args()[1]; by.Kind() == ast.LiteralKind {
			if name, isString := by.AsLiteral().(types.String); isString {
				variable, path, ok = u.chain(call.Args()[0])
				return variable, append(path, string(name)), ok
			}
		}
	}
	return "", nil, false
}
