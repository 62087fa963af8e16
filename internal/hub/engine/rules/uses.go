package rules

import (
	"encoding/json"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// uses describes what an expression uses of a variable: fields, their fields, and so on. Below the
// top, uses without fields means the whole value; at the top, it means nothing.
type uses struct {
	whole  bool
	fields map[fieldName]*uses
}

// fieldName is the name of a field, or the path in a location of the text that is the name. The
// path is a JSON list.
type fieldName struct{ name, path string }

func (u uses) none() bool { return !u.whole && len(u.fields) == 0 }

// mayUse reports whether a field may be used.
func (u uses) mayUse(name string) bool {
	if u.whole || u.fields[fieldName{name: name}] != nil {
		return true
	}
	for p := range u.fields {
		if p.path != "" {
			return true
		}
	}
	return false
}

// add adds the value at a path.
func (u *uses) add(path []fieldName) {
	for _, p := range path {
		u = u.field(p)
	}
	u.whole = true
}

func (u *uses) field(p fieldName) *uses {
	if u.fields == nil {
		u.fields = map[fieldName]*uses{}
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

// resolve replaces paths in a location by the names in its values; nil leaves these fields out.
func (u uses) resolve(values map[string]any) uses {
	here := uses{whole: u.whole}
	for p, below := range u.fields {
		name := p.name
		if p.path != "" {
			var ok bool
			if name, ok = textAt(values, p.path); !ok {
				continue // no field has this name: the expression fails
			}
		}
		here.field(fieldName{name: name}).merge(below.resolve(values))
	}
	return here
}

// textAt returns the text at a path in a location's values.
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

// byLocation returns the part that depends on the location's values.
func (u uses) byLocation() (some uses) {
	if u.whole {
		return some
	}
	for p, below := range u.fields {
		if p.path != "" {
			some.field(p).merge(*below)
		} else if deeper := below.byLocation(); !deeper.none() {
			some.field(p).merge(deeper)
		}
	}
	return some
}

// pick returns the used part of a value. For the expression, it is equivalent to the whole value.
func (u uses) pick(v any) any {
	fields, ok := v.(map[string]any)
	if u.whole || !ok {
		return v
	}
	picked := map[string]any{}
	for p, below := range u.fields {
		if value, ok := fields[p.name]; ok && p.path == "" {
			picked[p.name] = below.pick(value)
		}
	}
	return picked
}

// using collects the uses of variables in an expression.
type using struct {
	all map[string]*uses
	// bound are the variables of the enclosing comprehensions.
	bound []string
}

func (u *using) usesOf(variable string) uses {
	if found := u.all[variable]; found != nil {
		return *found
	}
	return uses{}
}

// expression adds the uses of an expression.
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

// contains adds the use of one key of a map by the operator in; ok is false for other operands.
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

func (u *using) add(variable string, path []fieldName) {
	if u.all == nil {
		u.all = map[string]*uses{}
	}
	if u.all[variable] == nil {
		u.all[variable] = &uses{}
	}
	u.all[variable].add(path)
	for _, p := range path {
		var names []string
		if p.path != "" && json.Unmarshal([]byte(p.path), &names) == nil {
			chain := make([]fieldName, len(names))
			for i, name := range names {
				chain[i].name = name
			}
			u.add(varLocation, chain)
		}
	}
}

// chain returns the variable and the path below it, if the expression is a field of a variable; ok
// is false otherwise.
func (u *using) chain(e ast.Expr) (variable string, path []fieldName, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), nil, !slices.Contains(u.bound, e.AsIdent())
	case ast.SelectKind:
		variable, path, ok = u.chain(e.AsSelect().Operand())
		return variable, append(path, fieldName{name: e.AsSelect().FieldName()}), ok
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

// key returns the field that an expression names: by a literal or, for data, by a value of the
// location.
func (u *using) key(variable string, e ast.Expr) (p fieldName, ok bool) {
	if e.Kind() == ast.LiteralKind {
		name, ok := e.AsLiteral().(types.String)
		return fieldName{name: string(name)}, ok
	}
	if variable != varData {
		return fieldName{}, false
	}
	base, path, ok := u.chain(e)
	if !ok || base != varLocation || len(path) == 0 {
		return fieldName{}, false
	}
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = p.name
	}
	return fieldName{path: canonical(names)}, true
}
