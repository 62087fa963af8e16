// Package kindrules compiles and evaluates the expressions of KindRules.
//
// A health is a function of the rule, the object in its space and the status at a location. The
// package must never use anything else, nor know which objects a rule applies to.
package kindrules

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// varObject is the variable of expressions.
	varObject = "object"
	// keptPrograms and keptResults bound the compiled expressions of a Language, and the results of
	// one rule. Many locations have equal statuses of an object.
	keptPrograms, keptResults = 4096, 512
)

// Language is CEL with the variables of KindRules. It is safe for concurrent use.
type Language struct {
	env      *cel.Env
	programs *lru.Cache // values are compiled, by expression
}

// compiled is the result of a compilation.
type compiled struct {
	program *expression.Program
	err     error
}

// environment returns the environment of the language. It is the same for all hubs, so a process makes it once.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return expression.New(nil, cel.Variable(varObject, cel.MapType(cel.StringType, cel.DynType)))
})

// New returns a Language.
func New() (*Language, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make the language of KindRules: %w", err)
	}
	return &Language{env: env, programs: lru.New(keptPrograms)}, nil
}

// Check validates the expressions of a KindRules. The errors have the positions in the expressions.
func (l *Language) Check(spec *v1alpha1.KindRulesSpec, path *field.Path) (errs field.ErrorList) {
	_, errs = l.compileHealth(&spec.Health, path.Child("health"))
	return errs
}

// Health implements placement.HealthOf.
func (l *Language) Health(spec *v1alpha1.KindRulesSpec) (health placement.Health, problems []string) {
	rule, errs := l.compileHealth(&spec.Health, field.NewPath("health"))
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	if len(errs) > 0 {
		return func(placement.HealthInput) (wire.Health, string, error) { return "", "", errs[0] }, problems
	}
	return rule.health, nil
}

// healthRule is a compiled v1alpha1.HealthRule.
type healthRule struct {
	// message is nil if there is none.
	state, message *expression.Program
	// known has the results, by the hash of the input.
	known *lru.Cache
}

// result is a result of a healthRule.
type result struct {
	health  wire.Health
	message string
	err     error
}

func (l *Language) compileHealth(rule *v1alpha1.HealthRule, path *field.Path) (h *healthRule, errs field.ErrorList) {
	h = &healthRule{known: lru.New(keptResults)}
	var err *field.Error
	if h.state, err = l.compileText(rule.State, path.Child("state")); err != nil {
		errs = append(errs, err)
	}
	if rule.Message != "" {
		if h.message, err = l.compileText(rule.Message, path.Child("message")); err != nil {
			errs = append(errs, err)
		}
	}
	return h, errs
}

// compileText compiles an expression that gives a string.
func (l *Language) compileText(text string, path *field.Path) (*expression.Program, *field.Error) {
	p, err := l.compile(text)
	if err != nil {
		return nil, field.Invalid(path, wire.Brief(text), err.Error())
	}
	switch t := p.OutputType(); t.Kind() {
	case types.StringKind, types.DynKind, types.AnyKind:
		return p, nil
	default:
		return nil, field.Invalid(path, wire.Brief(text), fmt.Sprintf("the expression gives a value of type %s, want a string", cel.FormatCELType(t)))
	}
}

// compile compiles an expression, with a cache.
func (l *Language) compile(text string) (*expression.Program, error) {
	if known, ok := l.programs.Get(text); ok {
		c := known.(compiled)
		return c.program, c.err
	}
	program, err := expression.Compile(l.env, text)
	if len(text) <= expression.MaxLength { // longer ones are not cached
		l.programs.Add(text, compiled{program, err})
	}
	return program, err
}

// health implements placement.Health.
func (h *healthRule) health(in placement.HealthInput) (wire.Health, string, error) {
	id := identify(in)
	if known, ok := h.known.Get(id); ok {
		r := known.(result)
		return r.health, r.message, r.err
	}
	var r result
	r.health, r.message, r.err = h.evaluate(in)
	h.known.Add(id, r)
	return r.health, r.message, r.err
}

// identify returns a hash of an input.
func identify(in placement.HealthInput) (id [sha256.Size]byte) {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(in.Object)))) // a hash never fails
	_, _ = h.Write(in.Object)
	_, _ = h.Write(in.Status)
	h.Sum(id[:0])
	return id
}

func (h *healthRule) evaluate(in placement.HealthInput) (wire.Health, string, error) {
	variables, err := variablesOf(in)
	if err != nil {
		return "", "", err
	}
	state, err := text(h.state, variables)
	if err != nil {
		return "", "", fmt.Errorf("health.state: %w", err)
	}
	health := wire.Health(state)
	switch health {
	case wire.Healthy:
		return health, "", nil
	case wire.Progressing, wire.Degraded, wire.HealthUnknown:
	default:
		return "", "", fmt.Errorf("health.state gives %q, want %s, %s, %s or %s", wire.Brief(state), wire.Healthy, wire.Progressing, wire.Degraded, wire.HealthUnknown)
	}
	if h.message == nil {
		return health, "", nil
	}
	message, err := text(h.message, variables)
	if err != nil {
		return health, "", fmt.Errorf("health.message: %w", err)
	}
	return health, wire.Brief(message), nil
}

// text evaluates an expression that gives a string. The evaluation is part of a view, so that no
// context may end it: its cost is bounded.
func text(p *expression.Program, variables expression.Variables) (string, error) {
	out, _, err := p.Eval(context.Background(), variables)
	if err != nil {
		return "", errors.New(wire.Brief(err.Error()))
	}
	if s, ok := out.(types.String); ok {
		return string(s), nil
	}
	return "", fmt.Errorf("the expression gives a value of type %s, want a string", out.Type().TypeName())
}

// variablesOf returns the variables of expressions. The object lacks metadata that differ between the
// space and the location, such as the generation.
func variablesOf(in placement.HealthInput) (expression.Variables, error) {
	decoded, err := expression.Decode(in.Object)
	if err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	object, ok := decoded.(map[string]any)
	if !ok {
		return nil, errors.New("the object is no JSON object")
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		maps.DeleteFunc(metadata, func(name string, _ any) bool {
			return !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, name)
		})
	}
	object["status"] = map[string]any{}
	if len(in.Status) > 0 {
		status, err := expression.Decode(in.Status)
		if err != nil {
			return nil, fmt.Errorf("decode the status: %w", err)
		}
		if status, ok := status.(map[string]any); ok {
			object["status"] = status
		}
	}
	return expression.Variables{varObject: object}, nil
}
