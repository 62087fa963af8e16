package aggregate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celtraits "github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/hub/engine/expression/typecheck"
)

// Variables of expressions.
const (
	varObject   = "object"
	varStatus   = "status"
	varLocation = "location"
	varSync     = "sync"
	varItem     = "item"
)

// keptPrograms bounds the cache of compiled expressions.
const keptPrograms = 2048

// maxCost bounds the total cost of the expressions of one Summary for one object at one location,
// in CEL's units.
const maxCost = expression.MaxCost

const (
	// maxElements bounds the elements that forEach returns for one object at one location.
	maxElements = 256
	// costOfElement is the cost of an element besides its expressions.
	costOfElement = 10
)

// scope determines the variables of an expression: without forEach and of forEach itself those of the
// object, otherwise also the element.
type scope int

const (
	ofObject scope = iota
	ofElement
	scopes
)

// source identifies a compiled expression.
type source struct {
	text  string
	scope scope
}

// Uses reports which variables expressions use.
type Uses struct{ Object, Status, Location, Sync, Item bool }

func (u Uses) with(o Uses) Uses {
	return Uses{u.Object || o.Object, u.Status || o.Status, u.Location || o.Location, u.Sync || o.Sync, u.Item || o.Item}
}

// program is a compiled expression.
type program struct {
	run  *expression.Program
	uses Uses
	// resultType is the static type of the result, as far as it is known.
	resultType *cel.Type
}

// compiled is the result of a compilation.
type compiled struct {
	program *program
	err     error
}

// Language is CEL with the variables of Summaries. It is safe for concurrent use. All users share
// one, and thereby its cache.
type Language struct {
	envs     [scopes]*cel.Env
	programs *lru.Cache // values are compiled, by source
	checkers [scopes]*typecheck.Checker
}

// environment returns the environment of the language. It is the same for all hubs, so a process makes it once.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	syncType := expression.Type("orrery.Sync", map[string]*apiservercel.DeclType{
		"state": apiservercel.StringType, "applied": apiservercel.BoolType, "health": apiservercel.StringType,
		"generation": apiservercel.IntType, "stale": apiservercel.BoolType, "since": apiservercel.StringType, "error": apiservercel.StringType,
	})
	return expression.New(map[string]*apiservercel.DeclType{varLocation: expression.Location(), varSync: syncType},
		cel.Variable(varObject, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varStatus, cel.MapType(cel.StringType, cel.DynType)),
	)
})

// New returns a Language.
func New() (*Language, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make the language of Summaries: %w", err)
	}
	withItem, err := env.Extend(cel.Variable(varItem, cel.DynType))
	if err != nil {
		return nil, fmt.Errorf("make the language of Summaries with forEach: %w", err)
	}
	return &Language{
		envs: [scopes]*cel.Env{env, withItem}, programs: lru.New(keptPrograms),
		checkers: [scopes]*typecheck.Checker{typecheck.New(env, expression.Messages), typecheck.New(withItem, expression.Messages)},
	}, nil
}

// compile compiles an expression, with a cache.
func (l *Language) compile(text string, scope scope) (*program, error) {
	cached := source{text, scope}
	if known, ok := l.programs.Get(cached); ok {
		c := known.(compiled)
		return c.program, c.err
	}
	run, err := expression.CompileLight(l.envs[scope], text)
	if err != nil {
		if len(text) <= expression.MaxLength { // longer ones are not cached
			l.programs.Add(cached, compiled{nil, err})
		}
		return nil, err
	}
	p := &program{run: run, resultType: run.OutputType()}
	ast.PostOrderVisit(run.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		switch e.AsIdent() {
		case varObject:
			p.uses.Object = true
		case varStatus:
			p.uses.Status = true
		case varLocation:
			p.uses.Location = true
		case varSync:
			p.uses.Sync = true
		case varItem:
			p.uses.Item = scope == ofElement
		}
	}))
	l.programs.Add(cached, compiled{p, nil})
	return p, nil
}

// family returns the family of the result, or null if it is unknown.
func (p *program) family() family { return familyOf(p.resultType) }

// familyOf returns the family of a type, or null if it is unknown.
func familyOf(t *cel.Type) family {
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	switch t.Kind() {
	case types.BoolKind:
		return boolean
	case types.IntKind, types.UintKind, types.DoubleKind:
		return number
	case types.DurationKind:
		return duration
	case types.TimestampKind:
		return instant
	case types.StringKind:
		return text
	case types.DynKind, types.AnyKind, types.NullTypeKind, types.TypeParamKind, types.ErrorKind:
		return null
	}
	if t.TypeName() == apiservercel.QuantityType.TypeName() {
		return quantity
	}
	return other
}

// evaluation is the evaluation of a Summary's expressions for one object at one location.
type evaluation struct {
	input Input
	// cost is the cost of all expressions, and spent that of the expressions that were not cached.
	cost, spent uint64
	// shared are the results that all elements of the object have in common; nil without forEach.
	shared Known
}

var errTooDear = errors.New("the expressions for the object cost too much together")

// eval evaluates an expression, or returns its cached result. Both count towards the limit of the
// Summary, so that a Summary does not depend on others.
func (e *evaluation) eval(p *program) (Value, error) {
	if p.uses.Item {
		return e.evalItem(p)
	}
	if g, known := e.shared[p]; known { // it has been counted
		return g.value, g.err
	}
	g, known := e.input.Known[p]
	if !known {
		g = p.give(e.input)
		e.spent += g.cost
		if e.input.Known != nil {
			e.input.Known[p] = g
		}
	}
	if e.shared != nil {
		e.shared[p] = g
	}
	if e.cost += g.cost; e.cost > maxCost {
		return Value{}, errTooDear
	}
	return g.value, g.err
}

// evalItem evaluates an expression for the present element.
func (e *evaluation) evalItem(p *program) (Value, error) {
	out, cost, err := p.run.Eval(context.Background(), e.input) // no timeout: the result must be deterministic
	if light, ok := p.run.LightCost(); ok {                     // there may be many elements, and most expressions have few parts
		cost = light
	}
	if err == nil {
		cost += costOfValue(out)
	}
	if tooDear := e.charge(cost); tooDear != nil {
		return Value{}, tooDear
	}
	if err != nil {
		return Value{}, err
	}
	return valueOf(out)
}

// charge adds a cost that no cache saves.
func (e *evaluation) charge(cost uint64) error {
	e.spent += cost
	if e.cost += cost; e.cost > maxCost {
		return errTooDear
	}
	return nil
}

// next makes item the present element.
func (e *evaluation) next(item ref.Val) error {
	e.input.item = item
	return e.charge(costOfElement)
}

// list evaluates forEach. The result is at most maxElements long.
func (e *evaluation) list(p *program) (all []ref.Val, err error) {
	e.shared = Known{}
	out, cost, err := p.run.Eval(context.Background(), e.input) // no timeout: the result must be deterministic
	if tooDear := e.charge(cost); tooDear != nil && err == nil {
		err = tooDear
	}
	if err != nil {
		return nil, err
	}
	if optional, ok := out.(*types.Optional); ok {
		if !optional.HasValue() {
			return nil, nil
		}
		out = optional.GetValue()
	}
	if out == types.NullValue {
		return nil, nil
	}
	list, ok := out.(celtraits.Lister)
	if !ok {
		return nil, fmt.Errorf("gives a %s, where a list belongs", out.Type().TypeName())
	}
	n, ok := list.Size().(types.Int)
	if !ok || n > maxElements {
		return nil, fmt.Errorf("gives %v elements, more than %d: leave some out, as with object.results.filter(r, r.result == 'fail')", list.Size(), maxElements)
	}
	for i := range n {
		item := list.Get(i)
		if types.IsError(item) {
			return nil, item.(*types.Err)
		}
		all = append(all, item)
	}
	return all, nil
}

// give evaluates the expression.
func (p *program) give(input Input) (g given) {
	out, cost, err := p.run.Eval(context.Background(), input) // no timeout: the result must be deterministic
	if g.cost = cost; err != nil {
		g.err = err
		return g
	}
	g.cost += costOfValue(out)
	g.value, g.err = valueOf(out)
	return g
}
