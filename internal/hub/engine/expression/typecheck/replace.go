package typecheck

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// typed is the environment in which expressions are checked after parts of them were replaced by
// variables with the types of a schema.
type typed struct {
	env   *cel.Env
	names map[string]string // of variables, by type
}

// newTyped declares a variable for each type that a place can have.
func newTyped(base *cel.Env) (*typed, error) {
	t := &typed{names: map[string]string{}}
	var all []cel.EnvOption
	declare := func(variable *cel.Type) {
		name := fmt.Sprintf("_schema_%d", len(all))
		t.names[variable.String()] = name
		all = append(all, cel.Variable(name, variable))
	}
	for _, one := range []*cel.Type{cel.DynType, cel.IntType, cel.StringType, cel.BoolType} {
		for _, declared := range []*cel.Type{one, cel.ListType(one), cel.MapType(cel.StringType, one)} {
			declare(declared)
			declare(cel.OptionalType(declared))
		}
	}
	var err error
	t.env, err = base.Extend(all...)
	return t, err
}

// typeFor returns the type of values with a schema.
func typeFor(s *openapi.Schema) *cel.Type {
	scalar := func(s *openapi.Schema) *cel.Type {
		if s == nil {
			return cel.DynType
		}
		switch s.Type {
		case "string":
			return cel.StringType
		case "integer":
			return cel.IntType
		case "boolean":
			return cel.BoolType
		}
		return cel.DynType // a number may be an int or a double
	}
	switch {
	case s != nil && s.Type == "array":
		return cel.ListType(scalar(s.Items))
	case s != nil && s.Type == "object":
		return cel.MapType(cel.StringType, scalar(s.Values))
	}
	return scalar(s)
}

// known is the schema of a subexpression, and whether it is an optional value.
type known struct {
	schema   *openapi.Schema
	optional bool
}

// binding is a variable with its schema; nil hides an outer variable of the name.
type binding struct {
	name string
	*known
}

// replacer replaces the subexpressions that select a place of the object.
type replacer struct {
	*typed
	make    ast.ExprFactory
	scope   []binding
	problem error // the first
}

// whole replaces an expression, or its subexpressions, that select places.
func (r *replacer) whole(e ast.Expr) {
	if e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue {
		r.put(e, &known{}) // null may be compared with everything
		return
	}
	r.put(e, r.resolve(e))
}

func (r *replacer) all(es ...ast.Expr) {
	for _, e := range es {
		r.whole(e)
	}
}

// put replaces an expression by a variable of the type for k; nil leaves it.
func (r *replacer) put(e ast.Expr, k *known) {
	if k == nil {
		return
	}
	t := typeFor(k.schema)
	if k.optional {
		t = cel.OptionalType(t)
	}
	e.SetKindCase(r.make.NewIdent(e.ID(), r.names[t.String()]))
}

// resolve returns the schema of an expression that selects a place, without replacing it. For other
// expressions it returns nil, after replacing their subexpressions.
func (r *replacer) resolve(e ast.Expr) *known {
	switch e.Kind() {
	case ast.IdentKind:
		for _, b := range slices.Backward(r.scope) {
			if b.name == e.AsIdent() {
				return b.known
			}
		}
	case ast.SelectKind:
		s := e.AsSelect()
		operand := r.resolve(s.Operand())
		if below := r.field(operand, s.FieldName(), false); below != nil && !s.IsTestOnly() {
			return below
		}
		r.put(s.Operand(), operand)
	case ast.CallKind:
		return r.call(e.AsCall())
	case ast.ListKind:
		r.all(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.all(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			r.whole(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		r.comprehension(e.AsComprehension())
	}
	return nil
}

// call is resolve for a call: of an index, perhaps an optional one, or an optional field.
func (r *replacer) call(c ast.CallExpr) *known {
	if c.IsMemberFunction() {
		r.whole(c.Target())
	}
	args := c.Args()
	optional := c.FunctionName() == operators.OptIndex || c.FunctionName() == operators.OptSelect
	if len(args) != 2 || !optional && c.FunctionName() != operators.Index {
		r.all(args...)
		return nil
	}
	operand, index := r.resolve(args[0]), args[1]
	var below *known
	if name, isString := literal(index).(types.String); isString {
		below = r.field(operand, string(name), optional)
	} else if r.whole(index); operand != nil && operand.schema != nil {
		switch {
		case operand.schema.Type == "array":
			below = &known{operand.schema.Items, operand.optional || optional}
		case operand.schema.Values != nil && len(operand.schema.Properties) == 0:
			below = &known{operand.schema.Values, operand.optional || optional}
		}
	}
	if below == nil {
		r.put(args[0], operand)
	}
	return below
}

func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral()
}

// field returns the schema of a field; nil if it is unknown. It records an error for a field that
// does not exist.
func (r *replacer) field(operand *known, name string, optional bool) *known {
	if operand == nil || operand.schema == nil || operand.schema.Type != "object" {
		return nil
	}
	below, ok := operand.schema.Field(name)
	if !ok && r.problem == nil {
		r.problem = NoField(operand.schema, name)
	}
	return &known{below, operand.optional || optional}
}

// comprehension resolves a comprehension: the variable for elements has the schema of the list's
// items.
func (r *replacer) comprehension(c ast.ComprehensionExpr) {
	over := r.resolve(c.IterRange())
	r.put(c.IterRange(), over)
	var element *known
	if over != nil && over.schema != nil && over.schema.Type == "array" && !over.optional {
		element = &known{schema: over.schema.Items}
	}
	r.whole(c.AccuInit())
	outside := len(r.scope)
	r.scope = append(r.scope, binding{c.IterVar(), element}, binding{c.IterVar2(), nil}, binding{c.AccuVar(), nil})
	r.all(c.LoopCondition(), c.LoopStep(), c.Result())
	r.scope = r.scope[:outside]
}
