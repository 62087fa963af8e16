package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// ErrInterrupted is returned by Eval when its context ended. It says nothing about the
// expression: callers must not keep it as a result.
var ErrInterrupted = errors.New("the evaluation was interrupted")

// Program is a compiled expression. It is safe for concurrent use. It is the only way in which
// the hub evaluates CEL of Customizers, templates and Summaries.
type Program struct {
	run     cel.Program
	checked *cel.Ast
	// isLight reports whether the expression costs LightCost at most, whatever its variables are. nodes is
	// then the number of nodes of its syntax tree.
	isLight bool
	nodes   int
}

// Compile compiles an expression in an environment that New made, or that extends one.
func Compile(env *cel.Env, expression string) (*Program, error) {
	return compile(env, expression, false)
}

// CompileLight is Compile for callers that evaluate expressions very often: an expression that
// costs no more than LightCost, whatever its variables are, is evaluated without counting.
func CompileLight(env *cel.Env, expression string) (*Program, error) {
	return compile(env, expression, true)
}

func compile(env *cel.Env, expression string, allowLight bool) (*Program, error) {
	if len(expression) > MaxLength {
		return nil, fmt.Errorf("may not be longer than %d bytes", MaxLength)
	}
	checked, issues := env.Compile(expression)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, errors.New("not valid: " + Messages(issues))
	}
	p := &Program{checked: checked}
	if allowLight {
		p.nodes, p.isLight = light(checked.NativeRep().Expr())
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !p.isLight {
		options = append(options, cel.CustomDecorator(newCharger(env, checked).decorate), cel.InterruptCheckFrequency(1),
			cel.CostTracking(costs{&library.CostEstimator{}}), cel.CostLimit(MaxCost))
	}
	var err error
	if p.run, err = env.Program(checked, options...); err != nil {
		return nil, fmt.Errorf("not valid: %w", err)
	}
	return p, nil
}

// LightCost returns what the evaluation costs at most, by the number of nodes of the expression; ok is false
// if it is not light.
func (p *Program) LightCost() (cost uint64, ok bool) {
	return uint64(LightCost / maxLight * p.nodes), p.isLight // #nosec G115 -- no number of nodes is negative
}

// Expr returns the expression as it was checked.
func (p *Program) Expr() ast.Expr { return p.checked.NativeRep().Expr() }

// OutputType returns the type of the values that the expression gives, as far as it is known.
func (p *Program) OutputType() *cel.Type { return p.checked.OutputType() }

// Eval evaluates the expression and returns its value and what the evaluation cost, in CEL's
// units. An expression costs what CEL counts, or a tenth of its steps if that is more.
//
// Value, cost and error depend on the variables alone. The only exception is ErrInterrupted,
// which wraps the error of a context that ended. Evaluations that are part of a view must
// therefore use a context that does not end: their steps bound them.
func (p *Program) Eval(ctx context.Context, variables interpreter.Activation) (out ref.Val, cost uint64, err error) {
	if p.isLight {
		out, _, err = p.run.Eval(variables)
		return out, LightCost, failure(err)
	}
	e := &evaluation{Activation: variables, ctx: ctx}
	out, details, err := p.run.Eval(e)
	if counted := details.ActualCost(); counted != nil {
		cost = *counted
	}
	cost = max(cost, uint64(e.steps)/stepsPerCost) // #nosec G115 -- no number of steps is negative
	switch {
	case e.isInterrupted:
		return nil, cost, fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
	case err == nil && types.IsError(out):
		err = out.(*types.Err)
	}
	return out, cost, failure(err)
}

// Variables are variables of an expression by their names.
type Variables map[string]any

var _ interpreter.Activation = Variables{}

// ResolveName implements interpreter.Activation.
func (v Variables) ResolveName(name string) (any, bool) {
	value, ok := v[name]
	return value, ok
}

// Parent implements interpreter.Activation.
func (Variables) Parent() interpreter.Activation { return nil }

// failure is an error of an evaluation as users see it.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "evaluation error: "))
}
