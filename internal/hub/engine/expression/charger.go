package expression

import (
	"math/bits"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// charger replaces the nodes of a program by nodes that charge what they are about to do.
type charger struct {
	env     *cel.Env
	charges map[string]charge
	// ranges are the IDs of what comprehensions go through, and may be a map.
	ranges map[int64]struct{}
}

func newCharger(env *cel.Env, checked *cel.Ast) *charger {
	c := &charger{env: env, charges: charges(), ranges: map[int64]struct{}{}}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			c.addRange(e.AsComprehension().IterRange())
		}
	}))
	return c
}

// addRange adds what a comprehension goes through. A place that begins at a variable, or at what
// a call returns, is found by the ID of that: the library adds to its node what leads on.
func (c *charger) addRange(e ast.Expr) {
	for {
		switch e.Kind() {
		case ast.ComprehensionKind, ast.ListKind, ast.MapKind, ast.LiteralKind:
			return // no map that the length of the expression does not bound
		case ast.SelectKind:
			e = e.AsSelect().Operand()
			continue
		case ast.CallKind:
			if call := e.AsCall(); call.FunctionName() == operators.Index {
				e = call.Args()[0]
				continue
			}
		}
		c.ranges[e.ID()] = struct{}{}
		return
	}
}

// decorate implements interpreter.InterpretableDecorator.
func (c *charger) decorate(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	switch node := i.(type) {
	case interpreter.InterpretableConst, *call, *made, *rangedAttribute, *ranged:
		return i, nil
	case interpreter.InterpretableConstructor:
		for _, v := range node.InitVals() {
			if _, isConst := v.(interpreter.InterpretableConst); !isConst {
				return &made{node}, nil
			}
		}
		return i, nil
	case interpreter.InterpretableAttribute:
		if _, is := c.ranges[node.ID()]; is {
			return &rangedAttribute{node}, nil
		}
		return i, nil
	case interpreter.InterpretableCall:
		_, isRange := c.ranges[node.ID()]
		charged := c.charges[node.Function()]
		if charged == nil && !isRange {
			return i, nil
		}
		return c.call(node, charged, isRange)
	}
	if _, is := c.ranges[i.ID()]; is {
		return &ranged{i}, nil
	}
	return i, nil
}

// call makes the node of a call that is charged.
func (c *charger) call(node interpreter.InterpretableCall, charged charge, isRange bool) (interpreter.Interpretable, error) {
	made := &call{InterpretableCall: node, args: node.Args(), charge: charged, isRange: isRange}
	switch node.Function() {
	case operators.Equals:
		made.apply = func(args []ref.Val) ref.Val { return types.Equal(args[0], args[1]) }
		return made, nil
	case operators.NotEquals:
		made.apply = func(args []ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }
		return made, nil
	}
	f := c.env.Functions()[node.Function()]
	bindings, err := f.Bindings()
	if err != nil {
		return nil, err
	}
	var bound *functions.Overload
	for _, b := range bindings {
		if b.Operator == node.OverloadID() || bound == nil && b.Operator == node.Function() {
			bound = b
		}
	}
	made.apply = func(args []ref.Val) ref.Val {
		if all, ok := concatenated(node, args); ok {
			return all
		}
		return dispatch(node, bound, args)
	}
	return made, nil
}

// concatenated is what the sum of two lists is, as one list. The library makes a view of the
// two, which takes longer to read the more often it was added to.
func concatenated(node interpreter.InterpretableCall, args []ref.Val) (ref.Val, bool) {
	if node.Function() != operators.Add {
		return nil, false
	}
	a, isList := args[0].(traits.Lister)
	b, areLists := args[1].(traits.Lister)
	if _, collects := args[0].(traits.MutableLister); !isList || !areLists || collects {
		return nil, false
	}
	all := make([]ref.Val, 0, lengthOf(a)+lengthOf(b))
	for _, l := range []traits.Lister{a, b} {
		for i := range lengthOf(l) {
			all = append(all, l.Get(types.Int(i)))
		}
	}
	return types.NewRefValList(adapter{types.DefaultTypeAdapter}, all), true
}

// dispatch calls the implementation of a function as the library does.
func dispatch(node interpreter.InterpretableCall, bound *functions.Overload, args []ref.Val) ref.Val {
	if bound != nil && (bound.OperandTrait == 0 || len(args) == 0 || args[0].Type().HasTrait(bound.OperandTrait)) {
		return apply(bound, args)
	}
	if len(args) > 0 && args[0].Type().HasTrait(traits.ReceiverType) {
		return args[0].(traits.Receiver).Receive(node.Function(), node.OverloadID(), args[1:])
	}
	return types.NewErrWithNodeID(node.ID(), "no such overload: %s", node.Function())
}

// call is a call that is charged before it is made.
type call struct {
	interpreter.InterpretableCall
	args    []interpreter.Interpretable
	charge  charge
	apply   func(args []ref.Val) ref.Val
	isRange bool
}

// Eval implements interpreter.Interpretable.
func (c *call) Eval(vars interpreter.Activation) ref.Val {
	var few [3]ref.Val
	args := few[:0]
	for _, arg := range c.args {
		args = append(args, arg.Eval(vars))
	}
	for _, arg := range args {
		if types.IsUnknownOrError(arg) {
			return arg
		}
	}
	if c.charge != nil && !allScalar(args) {
		e := evaluationOf(vars)
		e.spend(c.Function(), c.charge(args, e.left()))
	}
	out := types.LabelErrNode(c.ID(), c.apply(args))
	if c.isRange {
		chargeKeys(vars, out)
	}
	return out
}

func allScalar(args []ref.Val) bool {
	for _, v := range args {
		if !isScalarValue(v) {
			return false
		}
	}
	return len(args) == 2 // as operators have
}

// made is a list or an object that is charged for all that it unfolds to.
type made struct {
	interpreter.InterpretableConstructor
}

// Eval implements interpreter.Interpretable.
func (m *made) Eval(vars interpreter.Activation) ref.Val {
	out := m.InterpretableConstructor.Eval(vars)
	e := evaluationOf(vars)
	e.spend("a list or an object", unfolded(out, e.left()))
	return out
}

// rangedAttribute is a place that a comprehension goes through.
type rangedAttribute struct {
	interpreter.InterpretableAttribute
}

// Eval implements interpreter.Interpretable.
func (r *rangedAttribute) Eval(vars interpreter.Activation) ref.Val {
	out := r.InterpretableAttribute.Eval(vars)
	chargeKeys(vars, out)
	return out
}

// AddQualifier implements interpreter.InterpretableAttribute.
func (r *rangedAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	_, err := r.InterpretableAttribute.AddQualifier(q)
	return r, err
}

// ranged is anything else that a comprehension goes through.
type ranged struct {
	interpreter.Interpretable
}

// Eval implements interpreter.Interpretable.
func (r *ranged) Eval(vars interpreter.Activation) ref.Val {
	out := r.Interpretable.Eval(vars)
	chargeKeys(vars, out)
	return out
}

// chargeKeys charges what it takes to bring the keys of a map in order.
func chargeKeys(vars interpreter.Activation, v ref.Val) {
	m, ok := v.(traits.Mapper)
	if !ok {
		return
	}
	size, _ := m.Size().(types.Int)
	evaluationOf(vars).spend("a walk through an object", int(size)*bits.Len64(uint64(size))/4) // #nosec G115 -- no size is negative
}
