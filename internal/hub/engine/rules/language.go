package rules

import (
	"errors"
	"sync"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/hub/engine/expression/typecheck"
)

// Variables of expressions.
const (
	varSelf     = "self"
	varObject   = "object"
	varLocation = "location"
	varSpace    = "space"
	varData     = "data"
)

// language is CEL with the variables of rules.
type language struct {
	env      *cel.Env
	programs *lru.Cache // values are compiled, by expression
	checker  *typecheck.Checker
}

// compiled is the result of a compilation.
type compiled struct {
	program *program
	err     error
}

// program is a compiled expression, and what it uses.
type program struct {
	run             *expression.Program
	self            bool
	location, space uses
	data            uses
}

// environment returns the environment of the language. It is the same for all hubs, so a process makes it once.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	space := expression.Type("orrery.Space", map[string]*apiservercel.DeclType{"name": apiservercel.StringType, "labels": expression.Labels()})
	return expression.New(map[string]*apiservercel.DeclType{varLocation: expression.Location(), varSpace: space},
		cel.Variable(varSelf, cel.DynType),
		cel.Variable(varObject, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varData, cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.StringType))),
	)
})

// newLanguage returns the language of rules.
func newLanguage() (*language, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	return &language{env: env, programs: lru.New(keptPrograms), checker: typecheck.New(env, expression.Messages)}, nil
}

// compile compiles an expression, with a cache.
func (l *language) compile(text string) (*program, error) {
	if known, ok := l.programs.Get(text); ok {
		c := known.(compiled)
		return c.program, c.err
	}
	run, err := expression.Compile(l.env, text)
	if err != nil {
		if len(text) <= expression.MaxLength { // longer ones are not cached
			l.programs.Add(text, compiled{nil, err})
		}
		return nil, err
	}
	used := using{}
	used.expression(run.Expr())
	p := &program{run: run, self: !used.usesOf(varSelf).none(), location: used.usesOf(varLocation), space: used.usesOf(varSpace), data: used.usesOf(varData)}
	l.programs.Add(text, compiled{p, nil})
	return p, nil
}

// eval returns a copy of the expression's value, in the form of expression.Decode.
func (p *program) eval(r *run, self any) (any, error) {
	out, cost, err := p.run.Eval(r.ctx, expression.Variables{varSelf: self, varObject: r.object, varLocation: r.ofLocation, varSpace: r.ofSpace, varData: r.data})
	r.cost += cost
	switch {
	case r.cost > maxCost:
		return nil, errors.New("the expressions for the object cost too much together")
	case err != nil:
		return nil, err
	}
	value, err := expression.JSON(out, &r.room)
	if errors.Is(err, expression.ErrTooMuch) {
		return nil, errTooMuch
	}
	return value, err
}
