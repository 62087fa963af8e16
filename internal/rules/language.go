package rules

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/lru"
)

const (
	// maxExpression bounds an expression, in bytes, as the schema does.
	maxExpression = 4096
	// maxCostEach bounds what the evaluation of one expression costs, in CEL's units. A
	// usual one costs less than a hundred.
	maxCostEach = 20_000
)

// The names of the variables of expressions.
const (
	varSelf     = "self"
	varObject   = "object"
	varLocation = "location"
	varSpace    = "space"
	varData     = "data"
)

// language is CEL as rules have it.
type language struct {
	env      *cel.Env
	programs *lru.Cache // of compiled, by expression
	// typed checks types; it is made when it is first needed.
	typed  func() (*typed, error)
	checks *lru.Cache // of checked, by check
}

// compiled is what became of an expression.
type compiled struct {
	program *program
	err     error
}

// program is a compiled expression, and what it uses.
type program struct {
	run             cel.Program
	self            bool
	location, space uses
	data            uses
}

// newLanguage has the libraries that Kubernetes gives to CEL, each at a version of its own,
// so that no upgrade changes what rules mean. It leaves out what can't be evaluated here
// (authorizers), and comprehensions of two variables, since the maps that these make have
// no order.
func newLanguage() (*language, error) {
	named := func(name string, more map[string]*apiservercel.DeclType) *apiservercel.DeclType {
		fields := map[string]*apiservercel.DeclField{}
		for field, t := range more {
			fields[field] = apiservercel.NewDeclField(field, t, true, nil, nil)
		}
		return apiservercel.NewObjectType(name, fields)
	}
	labels := apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)
	space := named("orrery.Space", map[string]*apiservercel.DeclType{"name": apiservercel.StringType, "labels": labels})
	location := named("orrery.Location", map[string]*apiservercel.DeclType{
		"name": apiservercel.StringType, "labels": labels,
		"properties": apiservercel.NewMapType(apiservercel.StringType, apiservercel.DynType, -1),
	})
	base, err := cel.NewEnv(
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(cel.OptionalTypesVersion(2)),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Lists(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.Lists(ext.ListsVersion(3)),
	)
	if err != nil {
		return nil, err
	}
	bounded, err := boundCalls(base)
	if err != nil {
		return nil, err
	}
	declared, err := apiservercel.NewDeclTypeProvider(location, space).EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(append(append(declared, bounded...),
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.Variable(varSelf, cel.DynType),
		cel.Variable(varObject, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varLocation, location.CelType()),
		cel.Variable(varSpace, space.CelType()),
		cel.Variable(varData, cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.StringType))),
		parseJSON(),
	)...)
	if err != nil {
		return nil, err
	}
	return &language{
		env: env, programs: lru.New(keptPrograms),
		typed: sync.OnceValues(func() (*typed, error) { return newTyped(env) }), checks: lru.New(keptChecks),
	}, nil
}

// compile compiles an expression, once for all who use it.
func (l *language) compile(expression string) (*program, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("may not be longer than %d bytes", maxExpression)
	}
	if known, ok := l.programs.Get(expression); ok {
		c := known.(compiled)
		return c.program, c.err
	}
	p, err := l.compileAnew(expression)
	l.programs.Add(expression, compiled{p, err})
	return p, err
}

func (l *language) compileAnew(expression string) (*program, error) {
	checked, issues := l.env.Compile(expression)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, errors.New("not valid: " + messages(issues))
	}
	run, err := l.env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostTracking(costs{&library.CostEstimator{}}),
		cel.CostLimit(maxCostEach),
	)
	if err != nil {
		return nil, fmt.Errorf("not valid: %w", err)
	}
	used := using{}
	used.expression(checked.NativeRep().Expr())
	return &program{run: run, self: !used.of(varSelf).none(), location: used.of(varLocation), space: used.of(varSpace), data: used.of(varData)}, nil
}

// eval gives the expression's value, as decode gives JSON. It is a copy.
func (p *program) eval(r *run, self any) (any, error) {
	out, details, err := p.run.Eval(map[string]any{varSelf: self, varObject: r.object, varLocation: r.ofLocation, varSpace: r.ofSpace, varData: r.data})
	if cost := details.ActualCost(); cost != nil {
		r.cost += *cost
	}
	switch {
	case r.cost > maxCost:
		return nil, errors.New("the expressions for the object cost too much together")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "evaluation error: "))
	}
	return jsonOf(out, &r.room)
}
