package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/theory/jsonpath/spec"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/expression"
	"orrery.dev/orrery/internal/kinds/openapi"
)

// CheckTypes says what of a rule, which Check has nothing against, can't be right for the
// objects of a kind, by its schema: paths and expressions that name fields that there are
// not, and values of another type. What the schema does not say is right.
func (e *Engine) CheckTypes(of v1alpha1.Rule, kind *openapi.Schema, at *field.Path) *field.Error {
	r, bad := e.rule(0, of)
	if bad != nil {
		return nil //nolint:nilerr // Check says it
	}
	target, err := schemaAt(kind, r.path.segments)
	if err != nil {
		return field.Invalid(at.Child("path"), of.Path, err.Error())
	}
	takes := target
	if r.path.appends {
		if target != nil && target.Type != "array" {
			return field.Invalid(at.Child("path"), of.Path, fmt.Sprintf("appends to %s, which is no list", nameOf(target)))
		}
		takes = itemsOf(target)
	}
	switch {
	case of.Value != nil:
		if err := fits(r.value, takes, ""); err != nil {
			return field.Invalid(at.Child("value"), string(of.Value.Raw), err.Error())
		}
	case of.Expression != "":
		if err := e.language.checkTypes(of.Expression, kind, target, takes); err != nil {
			return field.Invalid(at.Child("expression"), of.Expression, err.Error())
		}
	}
	return nil
}

func itemsOf(s *openapi.Schema) *openapi.Schema {
	if s == nil {
		return nil
	}
	return s.Items
}

// nameOf is a type for people.
func nameOf(s *openapi.Schema) string {
	switch s.Type {
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + s.Type
	}
	return "a " + s.Type
}

// schemaAt is the schema at a path; it fails if it leads to a field that there is not.
func schemaAt(s *openapi.Schema, segments []*spec.Segment) (*openapi.Schema, error) {
	for _, segment := range segments {
		if s == nil {
			return nil, nil
		}
		switch by := segment.Selectors()[0].(type) {
		case spec.Name:
			if s.Type != "object" {
				return nil, fmt.Errorf("field %q is of %s, not of an object", string(by), nameOf(s))
			}
			below, ok := s.Field(string(by))
			if !ok {
				return nil, noField(s, string(by))
			}
			s = below
		case spec.Index:
			if s.Type != "array" {
				return nil, fmt.Errorf("element %d is of %s, not of a list", int(by), nameOf(s))
			}
			s = s.Items
		default: // all or some of the elements or fields
			switch s.Type {
			case "array":
				s = s.Items
			case "object":
				s = s.Values
			default:
				return nil, fmt.Errorf("%s has neither elements nor fields", nameOf(s))
			}
		}
	}
	return s, nil
}

// noField says that an object has no field of a name, and which is nearest.
func noField(s *openapi.Schema, name string) error {
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

// fits fails if a value, as expression.Decode gives it, can't be where a schema is, at a place below.
func fits(v any, s *openapi.Schema, at string) error {
	if s == nil || s.Type == "" || v == nil {
		return nil
	}
	if is := typeOf(v); is != s.Type && (is != "number" || s.Type != "integer") {
		return fmt.Errorf("%sis %s, where %s belongs", at, kindOf(v), nameOf(s))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below, ok := s.Field(name)
			if !ok {
				return noField(s, name)
			}
			if err := fits(v[name], below, fmt.Sprintf("%q ", name)); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := fits(e, s.Items, fmt.Sprintf("element %d ", i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeOf is the type of a value in a schema; a number may be an integer.
func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	}
	return "number"
}

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

// checkTypes checks an expression that compiles: object is of a kind, self is what is at a
// path, and the result is to be taken there.
//
// The library's types for schemas are not used: what they make of an object is no map, and
// could not be compared, joined or looked through as one, as it can when it is evaluated.
// So parts of an expression that lead to a place of the object are looked up in the schema,
// and replaced by a variable of the type there.
func (l *language) checkTypes(expression string, kind, self, takes *openapi.Schema) error {
	of := check{expression, kind, self, takes}
	if known, ok := l.checks.Get(of); ok {
		return known.(checked).err
	}
	err := l.checkAnew(of)
	l.checks.Add(of, checked{err})
	return err
}

// check is what of an expression is checked: it is about a kind, at a place, for a place.
type check struct {
	expression         string
	kind, self, result *openapi.Schema
}

// checked is what was found.
type checked struct{ err error }

func (l *language) checkAnew(of check) error {
	parsed, issues := l.env.Parse(of.expression)
	if issues != nil && issues.Err() != nil {
		return nil //nolint:nilerr // it has compiled
	}
	t, err := l.typed()
	if err != nil {
		return err
	}
	r := replacer{typed: t, make: ast.NewExprFactory(), scope: []binding{{varObject, &known{schema: of.kind}}, {varSelf, &known{schema: of.self}}}}
	r.whole(parsed.NativeRep().Expr())
	if r.problem != nil {
		return r.problem
	}
	typed, issues := t.env.Check(parsed)
	if issues != nil && len(issues.Errors()) > 0 {
		return errors.New("does not fit the schema: " + expression.Messages(issues))
	}
	return gives(typed.OutputType(), of.result)
}

// gives fails if a result of a type can't be where a schema is.
func gives(t *cel.Type, s *openapi.Schema) error {
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
		return fmt.Errorf("gives %s, where %s belongs", nameOf(&openapi.Schema{Type: as[0]}), nameOf(s))
	}
	if t.Kind() == types.ListKind {
		if err := gives(t.Parameters()[0], s.Items); err != nil {
			return fmt.Errorf("its elements: %w", err)
		}
	}
	return nil
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
		r.problem = noField(of.schema, name)
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
