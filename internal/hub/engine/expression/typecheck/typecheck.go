// Package typecheck says what of an expression can't be right for objects of a kind, by the
// kind's schema: fields that there are not, and values of another type. What a schema does
// not say is right.
//
// It must never know what expressions are for, nor where schemas come from. Only the hub
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
)

// kept bounds how many checks are kept, which keep the schemas.
const kept = 1024

// Checker checks the expressions of one environment. It is safe for concurrent use.
type Checker struct {
	env      *cel.Env
	messages func(*cel.Issues) string
	typed    func() (*typed, error) // made when it is first needed
	checks   *lru.Cache             // of checked, by check
}

// New makes a Checker; messages tell people what CEL finds.
func New(env *cel.Env, messages func(*cel.Issues) string) *Checker {
	return &Checker{env: env, messages: messages, typed: sync.OnceValues(func() (*typed, error) { return newTyped(env) }), checks: lru.New(kept)}
}

// Forget drops what is kept, for those who measure what a check takes.
func (c *Checker) Forget() { c.checks.Clear() }

// Variable is a variable whose values have a schema; nil is anything.
type Variable struct {
	Name   string
	Schema *openapi.Schema
}

// Variables are those of an expression that have a schema.
type Variables [2]Variable

// check is what of an expression is checked.
type check struct {
	expression string
	variables  Variables
}

// checked is what was found.
type checked struct {
	gives *cel.Type
	err   error
}

// Check checks an expression that compiles, and returns the type of what it gives; nil if
// that is not known.
//
// The library's types for schemas are not used: what they make of an object is no map, and
// could not be compared, joined or looked through as one, as it can when it is evaluated.
// So parts of an expression that lead to a place of a variable are looked up in its schema,
// and replaced by a variable of the type there.
func (c *Checker) Check(source string, variables Variables) (gives *cel.Type, err error) {
	of := check{source, variables}
	if known, ok := c.checks.Get(of); ok {
		return known.(checked).gives, known.(checked).err
	}
	gives, err = c.checkAnew(of)
	c.checks.Add(of, checked{gives, err})
	return gives, err
}

func (c *Checker) checkAnew(of check) (*cel.Type, error) {
	parsed, issues := c.env.Parse(of.expression)
	if issues != nil && issues.Err() != nil {
		return nil, nil //nolint:nilerr,nilnil // it has compiled
	}
	t, err := c.typed()
	if err != nil {
		return nil, err
	}
	r := replacer{typed: t, make: ast.NewExprFactory()}
	for _, v := range of.variables {
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

// Gives fails if a result of a type can't be where a schema is.
func Gives(t *cel.Type, s *openapi.Schema) error {
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
		if err := Gives(t.Parameters()[0], s.Items); err != nil {
			return fmt.Errorf("its elements: %w", err)
		}
	}
	return nil
}

// NameOf is a type for people.
func NameOf(s *openapi.Schema) string {
	switch s.Type {
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + s.Type
	}
	return "a " + s.Type
}

// NoField says that an object has no field of a name, and which is nearest.
func NoField(s *openapi.Schema, name string) error {
	if near := nearest(name, s.Properties); near != "" {
		return fmt.Errorf("there is no field %q, but %q", name, near)
	}
	return fmt.Errorf("there is no field %q", name)
}

// nearest is the field whose name differs by one or two letters from one, if any; short ones
// are all alike.
func nearest(name string, fields map[string]*openapi.Schema) (near string) {
	best := min(2, (len(name)-1)/2)
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		if d := distance(name, f); d < best || d == best && near == "" {
			best, near = d, f
		}
	}
	return near
}

// distance is the edit distance (Levenshtein) of two names.
func distance(a, b string) int {
	if n := len(a) - len(b); n > 2 || n < -2 || len(a) > 64 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
