// Package typecheck checks expressions against the schema of a kind. It finds unknown fields and
// values of another type. Where a schema is open, everything is valid.
//
// The package must never depend on the use of expressions or the source of schemas. Only the hub
// links it.
package typecheck

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/lib/suggest"
)

// kept bounds the cache of checks, which keep the schemas in memory.
const kept = 1024

// Checker checks the expressions of one environment. It is safe for concurrent use.
type Checker struct {
	env      *cel.Env
	messages func(*cel.Issues) string
	typed    func() (*typed, error) // created when first needed
	checks   *lru.Cache             // values are checked, by check
}

// New returns a Checker; messages formats the errors of CEL.
func New(env *cel.Env, messages func(*cel.Issues) string) *Checker {
	return &Checker{env: env, messages: messages, typed: sync.OnceValues(func() (*typed, error) { return newTyped(env) }), checks: lru.New(kept)}
}

// Forget drops the cache, for benchmarks.
func (c *Checker) Forget() { c.checks.Clear() }

// Variable is a variable with the schema of its values; nil allows anything.
type Variable struct {
	Name   string
	Schema *openapi.Schema
}

// Variables are the variables of an expression with a schema.
type Variables [2]Variable

// check is the key of a check in the cache.
type check struct {
	expression string
	variables  Variables
}

// checked is the result of a check.
type checked struct {
	resultType *cel.Type
	err        error
}

// Check checks an expression that compiles, and returns the type of its result; nil if it is
// unknown.
//
// It does not use the schema types of the library. With these, an object would not be a map, so
// that it could not be compared, joined or iterated, as it can in an evaluation. Instead,
// subexpressions that select a place of a variable are replaced by variables with the type from the
// schema.
func (c *Checker) Check(source string, variables Variables) (resultType *cel.Type, err error) {
	request := check{source, variables}
	if known, ok := c.checks.Get(request); ok {
		return known.(checked).resultType, known.(checked).err
	}
	resultType, err = c.checkAnew(request)
	c.checks.Add(request, checked{resultType, err})
	return resultType, err
}

func (c *Checker) checkAnew(request check) (*cel.Type, error) {
	parsed, issues := c.env.Parse(request.expression)
	if issues != nil && issues.Err() != nil {
		return nil, nil //nolint:nilerr,nilnil // the expression has compiled before
	}
	t, err := c.typed()
	if err != nil {
		return nil, err
	}
	r := replacer{typed: t, make: ast.NewExprFactory()}
	for _, v := range request.variables {
		r.scope = append(r.scope, binding{v.Name, &known{schema: v.Schema}})
	}
	r.whole(parsed.NativeRep().Expr())
	if r.problem != nil {
		return nil, r.problem
	}
	typed, issues := t.env.Check(parsed)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, errors.New("does not fit the schema: " + c.messages(issues))
	}
	return typed.OutputType(), nil
}

// CheckResult returns an error if a result of a type does not match a schema.
func CheckResult(t *cel.Type, s *openapi.Schema) error {
	if t == nil {
		return nil
	}
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	if s == nil || s.Type == "" {
		return nil
	}
	var as []string
	switch t.Kind() {
	case types.StringKind, types.TimestampKind, types.DurationKind, types.OpaqueKind:
		as = []string{"string"}
	case types.BoolKind:
		as = []string{"boolean"}
	case types.IntKind, types.UintKind, types.DoubleKind:
		as = []string{"integer", "number"}
	case types.ListKind:
		as = []string{"array"}
	case types.MapKind:
		as = []string{"object"}
	default:
		return nil
	}
	if !slices.Contains(as, s.Type) {
		return fmt.Errorf("gives %s, where %s belongs", NameOf(&openapi.Schema{Type: as[0]}), NameOf(s))
	}
	if t.Kind() == types.ListKind {
		if err := CheckResult(t.Parameters()[0], s.Items); err != nil {
			return fmt.Errorf("its elements: %w", err)
		}
	}
	return nil
}

// NameOf returns the name of a type for messages.
func NameOf(s *openapi.Schema) string {
	switch s.Type {
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + s.Type
	}
	return "a " + s.Type
}

// NoField returns an error for a field that an object does not have, with the nearest name.
func NoField(s *openapi.Schema, name string) error {
	if near := suggest.Nearest(name, maps.Keys(s.Properties)); near != "" {
		return fmt.Errorf("there is no field %q, but %q", name, near)
	}
	return fmt.Errorf("there is no field %q", name)
}
