package schemacost

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"orrery.dev/orrery/internal/lib/celmacro"
)

// The library evaluates the rules in x-kubernetes-validations, and charges a comparison of lists or objects
// for their outermost elements alone. What is in these is counted here beforehand: by the text of a rule, the
// types of the schema, and the size of the value that the rule is about.

const (
	// textBytes is how many bytes of a text count as one value.
	textBytes = 64
	// comparedSteps are for two values that are compared.
	comparedSteps = 2
	// fewParts is up to how many parts a value counts as one without parts.
	fewParts = 8
	// maxLoops is how many loops within each other are counted both for many small elements and for few large ones.
	maxLoops = 5
	// sampleSize is that of a value by which rules are found that compare more than a value is large, by a
	// factor of at least sampleFactor.
	sampleSize, sampleFactor = 1e6, 1e3
	// fixedSteps is how many steps a rule may take without counting, however small a value is.
	fixedSteps = 1e3
)

// rule is an expression whose comparisons can take much.
type rule struct {
	expr   ast.Expr
	schema *structuralschema.Structural
}

// size is that of a value: how many values it has, with itself, where long texts count as several, and how
// many elements its largest list or object has.
type size struct{ all, longest float64 }

func (s *size) add(value any) {
	s.all++
	switch v := value.(type) {
	case string:
		s.all += float64(len(v) / textBytes)
	case map[string]any:
		s.longest = max(s.longest, float64(len(v)))
		for _, inner := range v {
			s.add(inner)
		}
	case []any:
		s.longest = max(s.longest, float64(len(v)))
		for _, inner := range v {
			s.add(inner)
		}
	}
}

// rulesOf returns those of the rules of a schema whose comparisons can take much. What is no expression is
// refused elsewhere.
func rulesOf(s *structuralschema.Structural, rules apiextensionsv1.ValidationRules) (all []rule) {
	for _, r := range rules {
		for _, text := range []string{r.Rule, r.MessageExpression} {
			p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.PopulateMacroCalls(false))
			if err != nil || text == "" {
				continue
			}
			parsed, issues := p.Parse(common.NewTextSource(text))
			if len(issues.GetErrors()) > 0 {
				continue
			}
			one := rule{parsed.Expr(), s}
			if one.steps(size{sampleSize, sampleSize}) > sampleSize*sampleFactor || one.steps(size{1, 1}) > fixedSteps {
				all = append(all, one)
			}
		}
	}
	return all
}

// steps is what the comparisons of a rule about a value of a size take at most.
func (r rule) steps(value size) float64 {
	c := comparisons{longest: max(value.longest, 1)}
	self := c.data(r.schema, value.all)
	c.visit(r.expr, map[string]operand{"self": self, "oldSelf": self}, 1, 0)
	return c.compared * comparedSteps
}

// comparisons counts how many values an expression compares with others.
type comparisons struct{ longest, compared float64 }

// operand describes a value in a rule.
type operand struct {
	// all is its size, element that of the largest element, count how many elements there are.
	all, element, count float64
	// isData reports that it is a part of the object: the sizes of its elements add up to its own.
	isData bool
	// isScalar reports that it has no parts, so that the library charges all of a comparison.
	isScalar bool
	// schema is that of data; nil: it is not known.
	schema *structuralschema.Structural
}

var scalar = operand{all: 1, element: 1, count: 1, isScalar: true}

// data is a part of the object of some size.
func (c *comparisons) data(s *structuralschema.Structural, n float64) operand {
	o := operand{all: n, element: n, count: min(n, c.longest), isData: true, schema: s}
	if s == nil {
		return o
	}
	switch s.Type {
	case "integer", "number", "boolean":
		return scalar
	case "string":
		o.isScalar = true
		if v := s.ValueValidation; v != nil && (len(v.Enum) > 0 || v.MaxLength != nil) {
			bytes := 0.0
			if len(v.Enum) == 0 {
				bytes = float64(*v.MaxLength) * 4
			}
			o.all = min(n, 1+bytes/textBytes)
		}
	}
	return o
}

// elementAs describes a field, or an element, of a value.
func (c *comparisons) elementAs(o operand, s *structuralschema.Structural) operand {
	if o.isData {
		return c.data(s, o.all)
	}
	return operand{all: o.element, element: o.element, count: o.element}
}

func (c *comparisons) field(o operand, name string) operand {
	if o.schema == nil {
		return c.elementAs(o, nil)
	}
	if s, ok := o.schema.Properties[name]; ok {
		return c.elementAs(o, &s)
	}
	return c.elementAs(o, elementsOf(o.schema))
}

// elementsOf is the schema of the items of a list, or the values of a map; nil: it is not known.
func elementsOf(s *structuralschema.Structural) *structuralschema.Structural {
	switch {
	case s == nil:
		return nil
	case s.Items != nil:
		return s.Items
	case s.AdditionalProperties != nil:
		return s.AdditionalProperties.Structural
	}
	return nil
}

// visit describes the value of an expression that is evaluated so many times, in so many loops.
func (c *comparisons) visit(e ast.Expr, scope map[string]operand, times float64, loops int) operand {
	switch e.Kind() {
	case ast.LiteralKind:
		return scalar
	case ast.IdentKind:
		if o, ok := scope[e.AsIdent()]; ok {
			return o
		}
		return c.data(nil, 1)
	case ast.SelectKind:
		return c.field(c.visit(e.AsSelect().Operand(), scope, times, loops), e.AsSelect().FieldName())
	case ast.ListKind:
		return c.literal(e.AsList().Elements(), scope, times, loops)
	case ast.MapKind:
		var values []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			values = append(values, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return c.literal(values, scope, times, loops)
	case ast.CallKind:
		return c.call(e.AsCall(), scope, times, loops)
	}
	return c.data(nil, 1)
}

// literal is a list or an object with some values.
func (c *comparisons) literal(values []ast.Expr, scope map[string]operand, times float64, loops int) operand {
	o := operand{all: 1, element: 1, count: float64(len(values))}
	for _, v := range values {
		value := c.visit(v, scope, times, loops)
		o.all, o.element = o.all+value.all, max(o.element, value.all)
	}
	return o
}

// comparing are the functions that compare each element of one value with those of another.
var comparing = []string{
	operators.In, "indexOf", "lastIndexOf", "distinct", "sets.contains", "sets.equivalent", "sets.intersects",
}

// plainCalls give a value without parts.
var plainCalls = []string{
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In,
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Negate, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
	"has", "size", "string", "int", "uint", "double", "bool", "contains", "startsWith", "endsWith", "matches", "join", "indexOf", "lastIndexOf", "hasValue",
	"isSorted", "sum", "sets.contains", "sets.equivalent", "sets.intersects",
}

func (c *comparisons) call(call ast.CallExpr, scope map[string]operand, times float64, loops int) operand {
	name, args := call.FunctionName(), call.Args()
	var all []operand
	if call.IsMemberFunction() {
		if target := call.Target(); target.Kind() == ast.IdentKind && target.AsIdent() == "sets" {
			name = "sets." + name
		} else {
			over := c.visit(target, scope, times, loops)
			if variables, step := celmacro.BoundBy(name, args); step != nil {
				return c.loop(name, over, variables, args, scope, times, loops)
			}
			all = append(all, over)
		}
	}
	for _, arg := range args {
		all = append(all, c.visit(arg, scope, times, loops))
	}
	c.compare(name, all, times)
	switch {
	case slices.Contains(plainCalls, name) || len(all) == 0:
		return scalar
	case name == operators.Conditional:
		return operand{all: max(all[1].all, all[2].all), element: max(all[1].element, all[2].element), count: max(all[1].count, all[2].count)}
	case slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, name):
		return c.elementAs(all[0], elementsOf(all[0].schema))
	case len(all) == 1 && all[0].isData:
		return all[0]
	}
	// It may have flattened, or repeated, what it was given.
	sum := all[0]
	for _, o := range all[1:] {
		sum = operand{all: sum.all + o.all, element: max(sum.element, o.element), count: sum.count + o.count}
	}
	return sum
}

// compare adds what a call compares.
func (c *comparisons) compare(name string, all []operand, times float64) {
	switch {
	case len(all) == 2 && (name == operators.Equals || name == operators.NotEquals):
		if !all[0].isScalar && !all[1].isScalar {
			c.compared += times * min(all[0].all, all[1].all)
		}
	case slices.Contains(comparing, name) && len(all) > 0:
		// The library charges for each pair of elements, if these have no parts.
		a, b := all[0], all[len(all)-1]
		if c.hasScalars(a) || c.hasScalars(b) {
			return
		}
		switch name {
		case operators.In:
			c.compared += times * b.search(a)
		case "indexOf", "lastIndexOf":
			c.compared += times * a.search(b)
		default:
			c.compared += times * a.count * b.all
		}
	}
}

// search is what it takes to compare each element of a list with a value.
func (o operand) search(value operand) float64 {
	if o.isData {
		return o.all
	}
	return o.count * min(o.element, value.all)
}

// hasScalars reports whether a value, or each of its elements, has no parts, or few.
func (c *comparisons) hasScalars(o operand) bool {
	if o.isScalar || o.element <= fewParts && !o.isData {
		return true
	}
	items := elementsOf(o.schema)
	return items != nil && c.data(items, 1).isScalar
}

// loop is the value of a macro. The elements of data are either many that are small, or few that are large: each
// is what may take most.
func (c *comparisons) loop(name string, over operand, variables []string, args []ast.Expr, scope map[string]operand, times float64, loops int) operand {
	between, step := args[len(variables):len(args)-1], args[len(args)-1]
	run := func(bound operand, times float64) (made operand) {
		inside := maps.Clone(scope)
		for _, v := range variables {
			inside[v] = bound
		}
		for _, e := range between {
			c.visit(e, inside, times, loops+1)
		}
		return c.visit(step, inside, times, loops+1)
	}
	switch name {
	case "optMap", "optFlatMap":
		return run(over, times)
	case "bind":
		if len(between) > 0 {
			bound := c.visit(between[0], scope, times, loops)
			between = between[1:]
			return run(bound, times)
		}
	}
	count, bound := over.count, operand{all: over.element, element: over.element, count: over.element}
	var made operand
	switch {
	case !over.isData || loops >= maxLoops:
		made = run(bound, times*count)
	default:
		items := elementsOf(over.schema)
		made = run(c.data(items, max(1, over.all/max(1, count))), times*count)
		if large := c.data(items, over.all); count > 1 && large.all > 1 {
			few := run(large, times)
			made.all, made.element = max(made.all, few.all), max(made.element, few.element)
		}
	}
	switch name {
	case "all", "exists", "exists_one", "existsOne":
		return scalar
	case "filter", "sortBy":
		return over
	}
	if over.isData && made.isScalar {
		return operand{all: count, element: made.all, count: count}
	}
	return operand{all: count * made.all, element: made.all, count: count}
}
