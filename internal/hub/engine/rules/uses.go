package rules

import (
	"encoding/json"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// uses is what an expression uses of a variable: fields, what it uses of these, and so on.
// One without fields is used as a whole, but at the top: there it is not used.
type uses struct {
	whole  bool
	fields map[part]*uses
}

// part names a field: by its name, or as the text that is at a path of the location, which
// is a JSON list.
type part struct{ name, by string }

func (u uses) none() bool { return !u.whole && len(u.fields) == 0 }

// has says that something may be used of a field.
func (u uses) has(name string) bool {
	if u.whole || u.fields[part{name: name}] != nil {
		return true
	}
	for p := range u.fields {
		if p.by != "" {
			return true
		}
	}
	return false
}

// add adds what is at a path.
func (u *uses) add(path []part) {
	for _, p := range path {
		u = u.field(p)
	}
	u.whole = true
}

func (u *uses) field(p part) *uses {
	if u.fields == nil {
		u.fields = map[part]*uses{}
	}
	if u.fields[p] == nil {
		u.fields[p] = &uses{}
	}
	return u.fields[p]
}

func (u *uses) merge(o uses) {
	u.whole = u.whole || o.whole
	for p, below := range o.fields {
		u.field(p).merge(*below)
	}
}

// at is what is used at a location with some values; nil leaves out what only these tell.
func (u uses) at(values map[string]any) uses {
	here := uses{whole: u.whole}
	for p, below := range u.fields {
		name := p.name
		if p.by != "" {
			var ok bool
			if name, ok = textAt(values, p.by); !ok {
				continue // nothing has such a key: the expression fails before, or there
			}
		}
		here.field(part{name: name}).merge(below.at(values))
	}
	return here
}

// textAt is the text at a path of a location's values.
func textAt(values map[string]any, path string) (text string, ok bool) {
	var names []string
	if json.Unmarshal([]byte(path), &names) != nil {
		return "", false
	}
	var v any = values
	for _, name := range names {
		fields, _ := v.(map[string]any)
		v = fields[name]
	}
	text, ok = v.(string)
	return text, ok
}

// byLocation is the part of what is used that a location's values tell.
func (u uses) byLocation() (some uses) {
	if u.whole {
		return some
	}
	for p, below := range u.fields {
		if p.by != "" {
			some.field(p).merge(*below)
		} else if deeper := below.byLocation(); !deeper.none() {
			some.field(p).merge(deeper)
		}
	}
	return some
}

// pick is the part of a value that is used. An expression that uses no more than that
// can't tell it from the whole.
func (u uses) pick(v any) any {
	fields, ok := v.(map[string]any)
	if u.whole || !ok {
		return v
	}
	picked := map[string]any{}
	for p, below := range u.fields {
		if value, ok := fields[p.name]; ok && p.by == "" {
			picked[p.name] = below.pick(value)
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
		if call.FunctionName() == operators.In && u.contains(call.Args()) {
			return
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

// contains adds what is used by asking for one key of a map; ok is false if it is another
// question.
func (u *using) contains(args []ast.Expr) (ok bool) {
	variable, path, ok := u.chain(args[1])
	if !ok {
		return false
	}
	key, ok := u.key(variable, args[0])
	if ok {
		u.add(variable, append(path, key))
	}
	return ok
}

func (u *using) add(variable string, path []part) {
	if u.all == nil {
		u.all = map[string]*uses{}
	}
	if u.all[variable] == nil {
		u.all[variable] = &uses{}
	}
	u.all[variable].add(path)
	for _, p := range path {
		var names []string
		if p.by != "" && json.Unmarshal([]byte(p.by), &names) == nil {
			of := make([]part, len(names))
			for i, name := range names {
				of[i].name = name
			}
			u.add(varLocation, of)
		}
	}
}

// chain is the variable and the path below it that an expression is; ok is false if it is
// anything else.
func (u *using) chain(e ast.Expr) (variable string, path []part, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), nil, !slices.Contains(u.bound, e.AsIdent())
	case ast.SelectKind:
		variable, path, ok = u.chain(e.AsSelect().Operand())
		return variable, append(path, part{name: e.AsSelect().FieldName()}), ok
	case ast.CallKind:
		call := e.AsCall()
		if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) || len(call.Args()) != 2 {
			return "", nil, false
		}
		if variable, path, ok = u.chain(call.Args()[0]); !ok {
			return "", nil, false
		}
		key, ok := u.key(variable, call.Args()[1])
		return variable, append(path, key), ok
	}
	return "", nil, false
}

// key is the field of a variable, or below it, that an expression names: by a literal, or
// for data by a value of the location.
func (u *using) key(variable string, e ast.Expr) (p part, ok bool) {
	if e.Kind() == ast.LiteralKind {
		name, ok := e.AsLiteral().(types.String)
		return part{name: string(name)}, ok
	}
	if variable != varData {
		return part{}, false
	}
	of, path, ok := u.chain(e)
	if !ok || of != varLocation || len(path) == 0 {
		return part{}, false
	}
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = p.name
	}
	return part{by: canonical(names)}, true
}
