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

// typed is the environment in which expressions are checked whose parts have been replaced
// by variables of the types that a schema gives them.
type typed struct {
	env   *cel.Env
	names map[string]string // of variables, by type
}

// newTyped declares a variable for each type that a place can have.
func newTyped(of *cel.Env) (*typed, error) {
	t := &typed{names: map[string]string{}}
	var all []cel.EnvOption
	declare := func(of *cel.Type) {
		name := fmt.Sprintf("_schema_%d", len(all))
		t.names[of.String()] = name
		all = append(all, cel.Variable(name, of))
	}
	for _, one := range []*cel.Type{cel.DynType, cel.IntType, cel.StringType, cel.BoolType} {
		for _, of := range []*cel.Type{one, cel.ListType(one), cel.MapType(cel.StringType, one)} {
			declare(of)
			declare(cel.OptionalType(of))
		}
	}
	var err error
	t.env, err = of.Extend(all...)
	return t, err
}

// typeFor is the type of values where a schema is.
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

// known is what is known of a part of an expression: where in the schema it is, and whether
// it is an optional value.
type known struct {
	schema   *openapi.Schema
	optional bool
}

// binding is a variable and what is known of it; nil hides another of its name.
type binding struct {
	name string
	*known
}

// replacer replaces the parts of an expression that lead to a place of the object.
type replacer struct {
	*typed
	make    ast.ExprFactory
	scope   []binding
	problem error // the first
}

// whole replaces what of an expression leads to places, itself included.
func (r *replacer) whole(e ast.Expr) {
	if e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue {
		r.put(e, &known{}) // it may be compared with everything
		return
	}
	r.put(e, r.part(e))
}

func (r *replacer) all(es ...ast.Expr) {
	for _, e := range es {
		r.whole(e)
	}
}

// put puts a variable of the type that is known in the place of an expression.
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

// part is what is known of an expression that leads to a place, which is not yet replaced;
// nil if it does not, then its parts are.
func (r *replacer) part(e ast.Expr) *known {
	switch e.Kind() {
	case ast.IdentKind:
		for _, b := range slices.Backward(r.scope) {
			if b.name == e.AsIdent() {
				return b.known
			}
		}
	case ast.SelectKind:
		s := e.AsSelect()
		of := r.part(s.Operand())
		if below := r.field(of, s.FieldName(), false); below != nil && !s.IsTestOnly() {
			return below
		}
		r.put(s.Operand(), of)
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

// call is part of a call: of an index, perhaps an optional one, or of a field that is.
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
	of, by := r.part(args[0]), args[1]
	var below *known
	if name, isString := literal(by).(types.String); isString {
		below = r.field(of, string(name), optional)
	} else if r.whole(by); of != nil && of.schema != nil {
		switch {
		case of.schema.Type == "array":
			below = &known{of.schema.Items, of.optional || optional}
		case of.schema.Values != nil && len(of.schema.Properties) == 0:
			below = &known{of.schema.Values, of.optional || optional}
		}
	}
	if below == nil {
		r.put(args[0], of)
	}
	return below
}

func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral()
}

// field is what is known of a field; nil if that is nothing. It notes one that there is not.
func (r *replacer) field(of *known, name string, optional bool) *known {
	if of == nil || of.schema == nil || of.schema.Type != "object" {
		return nil
	}
	below, ok := of.schema.Field(name)
	if !ok && r.problem == nil {
		r.problem = NoField(of.schema, name)
	}
	return &known{below, of.optional || optional}
}

// comprehension knows the elements of a list in what is done with each.
func (r *replacer) comprehension(c ast.ComprehensionExpr) {
	over := r.part(c.IterRange())
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
