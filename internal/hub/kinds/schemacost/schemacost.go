// Package schemacost counts what an object takes by the schema of a CRD before anything is done
// with it: the bytes that defaults add to it, and the steps of its validation. Both can be very
// many for a small object and a small schema, since one multiplies the other. Its Validator ends
// a validation that has found many errors, which the library compares with each other.
//
// It is pure. It must never know what a count is compared with, apart from the limits that it
// defines.
package schemacost

import (
	"context"
	"fmt"
	"regexp/syntax"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

const (
	// MaxDefaults is how many bytes defaults may add to an object: as many as an object may have.
	MaxDefaults = 1472 << 10
	// MaxSteps is how many steps the validation of an object may take. One takes about 0.1 µs
	// and 100 bytes, which are garbage then.
	MaxSteps = 10_000_000
)

// Steps of a validation, as measured by BenchmarkSteps.
const (
	// valueSteps are for a value, or for a branch of anyOf, oneOf, allOf or not: the library makes
	// a validator for each.
	valueSteps = 20
	// fieldSteps are for a field that a schema has, whether or not an object has it.
	fieldSteps = 6
	// enumSteps are for a value of an enum.
	enumSteps = 1
	// patternBytes is how many bytes of a text take one step for each instruction of a pattern.
	patternBytes = 16
	// formatInstructions is about what a format takes.
	formatInstructions = 50
	// comparedErrors is how many pairs of errors are compared in a step: the library compares
	// each error of a value with all others.
	comparedErrors = 8
)

// most bounds what is added up, so that nothing overflows.
const most = 1 << 40

// Schema is what counts of a schema. It is immutable and safe for concurrent use.
type Schema struct{ root *node }

// node is a place in a schema, with what all branches say of it.
type node struct {
	fields map[string]*node
	// others are for fields without a node of their own.
	others *node
	items  *node

	// steps are for each value, object for each one that is an object. size has those of the
	// schema itself: of it and all nodes below.
	steps, object, size int
	// instructions are those of its patterns.
	instructions int
	// rules are those that can compare much.
	rules []rule
	// errors is how many there may be for a value itself. inherited has those that are found by
	// a branch of a node above, and so count there, too.
	errors, inherited int

	// value is the default; nil: none.
	value any
	// fill is how many bytes a default takes with all defaults in it.
	fill int
	// fills reports whether the node or one below it has a default, and filled is what all
	// fields with defaults take together.
	fills  bool
	filled int
	// nullable reports whether null is a value.
	nullable bool
}

// New reads a schema; nil: everything is right, and nothing is added.
func New(s *structuralschema.Structural) *Schema {
	if s == nil {
		return &Schema{}
	}
	b := builder{patterns: map[string]int{}}
	return &Schema{b.node(s)}
}

// builder makes nodes.
type builder struct {
	// patterns has the instructions of patterns.
	patterns map[string]int
}

func (b builder) node(s *structuralschema.Structural) *node {
	n := &node{steps: valueSteps, nullable: s.Nullable, value: s.Default.Object}
	if s.XIntOrString {
		n.steps += 2 * valueSteps
	}
	n.object += len(s.Properties) * fieldSteps
	for name, field := range s.Properties {
		n.field(name, b.node(&field))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		n.others = b.node(s.AdditionalProperties.Structural)
	}
	if s.Items != nil {
		n.items = b.node(s.Items)
		n.items.object += len(s.XListMapKeys) * fieldSteps
	}
	b.values(n, s.ValueValidation)
	n.rules = append(n.rules, rulesOf(s, s.XValidations)...)
	n.size = n.steps + n.object
	for _, below := range n.below() {
		n.size = min(n.size+below.size, most)
		n.fills = n.fills || below.fills
	}
	for name, field := range n.fields {
		if field.value != nil {
			n.filled += fieldBytes(name) + field.fill // never too much: no schema has a million fields
		}
	}
	if n.value != nil {
		n.fills = true
		n.fill = min(Size(n.value)+n.added(n.value, most), most)
	}
	return n
}

// field sets the node of a field.
func (n *node) field(name string, field *node) {
	if n.fields == nil {
		n.fields = map[string]*node{}
	}
	n.fields[name] = field
}

func (n *node) below() []*node {
	all := make([]*node, 0, len(n.fields)+2)
	for _, field := range n.fields {
		all = append(all, field)
	}
	for _, one := range []*node{n.others, n.items} {
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// values adds what is required of the values of a node.
func (b builder) values(n *node, v *structuralschema.ValueValidation) {
	if v == nil {
		return
	}
	n.steps += len(v.Enum) * enumSteps
	n.object += len(v.Required) * fieldSteps
	n.errors += b.branches(n, v)
	n.instructions += b.instructions(v.Pattern)
	if v.Format != "" {
		n.instructions += formatInstructions
	}
}

// branches adds what the branches of a node require, and returns how many errors its result has.
func (b builder) branches(n *node, v *structuralschema.ValueValidation) (errors int) {
	errors = 1 + len(v.Required)
	for i := range v.AllOf {
		errors += b.branch(n, &v.AllOf[i])
	}
	for _, either := range [][]structuralschema.NestedValueValidation{v.AnyOf, v.OneOf} {
		most := 0 // only the errors of the best branch are in the result
		for i := range either {
			most = max(most, b.branch(n, &either[i]))
		}
		errors += most
	}
	b.branch(n, v.Not)
	return errors
}

// branch adds what a branch requires of a node and of those below, and returns how many errors
// its result has for the value itself.
func (b builder) branch(n *node, v *structuralschema.NestedValueValidation) (errors int) {
	if v == nil {
		return 0
	}
	n.steps += valueSteps
	n.rules = append(n.rules, rulesOf(nil, v.XValidations)...)
	n.object += len(v.Properties) * fieldSteps
	for name, field := range v.Properties {
		if n.fields[name] == nil {
			n.field(name, &node{nullable: true})
		}
		n.fields[name].inherited += b.branch(n.fields[name], &field)
	}
	for _, inner := range []struct {
		to *(*node)
		v  *structuralschema.NestedValueValidation
	}{{&n.items, v.Items}, {&n.others, v.AdditionalProperties}} {
		if inner.v != nil && *inner.to == nil {
			*inner.to = &node{nullable: true}
		}
		if inner.v != nil {
			(*inner.to).inherited += b.branch(*inner.to, inner.v)
		}
	}
	n.steps += len(v.Enum) * enumSteps
	n.object += len(v.Required) * fieldSteps
	n.instructions += b.instructions(v.Pattern)
	if v.Format != "" {
		n.instructions += formatInstructions
	}
	return b.branches(n, &v.ValueValidation)
}

// instructions are those of a compiled pattern. One that is wrong is refused elsewhere.
func (b builder) instructions(pattern string) int {
	if n, ok := b.patterns[pattern]; ok || pattern == "" {
		return n
	}
	if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		if program, err := syntax.Compile(parsed.Simplify()); err == nil {
			b.patterns[pattern] = len(program.Inst)
		}
	}
	return b.patterns[pattern]
}

// fieldBytes is what a field takes in JSON besides its value.
func fieldBytes(name string) int { return len(name) + len(`"":,`) }

// Size is about how many bytes a value takes in JSON.
func Size(value any) int {
	n := 0
	switch v := value.(type) {
	case string:
		return len(v) + len(`""`)
	case map[string]any:
		for name, inner := range v {
			n += fieldBytes(name) + Size(inner)
		}
		return n + len(`{}`)
	case []any:
		for _, inner := range v {
			n += len(`,`) + Size(inner)
		}
		return n + len(`[]`)
	}
	return len(`12345`)
}

// Added is about how many bytes defaults add to an object. It stops above a limit.
func (s *Schema) Added(object any, limit int) int {
	if s.root == nil {
		return 0
	}
	return s.root.added(object, limit)
}

func (n *node) added(value any, limit int) (bytes int) {
	if n == nil || !n.fills {
		return 0
	}
	switch v := value.(type) {
	case map[string]any:
		bytes = n.filled
		for name := range v {
			if field := n.fields[name]; field != nil && field.value != nil && !field.isUnset(v[name]) {
				bytes -= fieldBytes(name) + field.fill
			}
		}
		for name, inner := range v {
			if bytes > limit {
				return bytes
			}
			field := n.fields[name]
			switch {
			case field == nil:
				bytes += n.others.replaced(inner, limit-bytes)
			case field.value == nil || !field.isUnset(inner):
				bytes += field.added(inner, limit-bytes)
			}
		}
	case []any:
		for _, inner := range v {
			if bytes += n.items.replaced(inner, limit-bytes); bytes > limit {
				return bytes
			}
		}
	}
	return bytes
}

// replaced is what is added to a value that takes the default if it is null.
func (n *node) replaced(value any, limit int) int {
	if n.isUnset(value) {
		return n.fill
	}
	return n.added(value, limit)
}

// isUnset reports whether a value is null where null is none.
func (n *node) isUnset(value any) bool { return n != nil && value == nil && !n.nullable }

// Steps is how many steps the validation of an object takes at most. It stops above a limit, and
// when its context ends, with its error.
func (s *Schema) Steps(ctx context.Context, object any, limit int) (int, error) {
	w := walk{ctx: ctx, limit: limit}
	w.visit(s.root, object)
	return w.steps, w.err
}

// Exceeds reports whether the validation of an object may take more than MaxSteps.
func (s *Schema) Exceeds(object any) bool {
	w := walk{limit: MaxSteps}
	w.visit(s.root, object)
	return w.steps > MaxSteps
}

// Definition is how many steps it takes to validate the schema itself: each of its defaults is
// validated by a validator of its own. It stops above a limit.
func (s *Schema) Definition(ctx context.Context, limit int) (int, error) {
	w := walk{ctx: ctx, limit: limit}
	w.define(s.root)
	return w.steps, w.err
}

// walk counts steps.
type walk struct {
	// ctx ends the walk; nil: nothing does.
	ctx          context.Context
	limit, steps int
	visits       int
	err          error
}

// visitsPerCheck is after how many visits a walk looks at its context.
const visitsPerCheck = 1024

// isOver reports whether a walk ends.
func (w *walk) isOver() bool {
	if w.visits++; w.visits%visitsPerCheck == 0 && w.ctx != nil && w.err == nil {
		if err := w.ctx.Err(); err != nil {
			w.err = fmt.Errorf("count the steps of a validation: %w", err)
		}
	}
	return w.err != nil || w.steps > w.limit
}

// visit adds the steps of a value, and returns how many errors branches above it may find in it.
func (w *walk) visit(n *node, value any) (inherited int) {
	if n == nil || w.isOver() {
		return 0
	}
	w.steps += n.steps + n.compared(value)
	below := 0
	switch v := value.(type) {
	case string:
		w.steps += min(len(v), most) * n.instructions / patternBytes
	case map[string]any:
		w.steps += n.object
		for name, inner := range v {
			below += w.visit(n.fields[name], inner) + w.visit(n.others, inner)
		}
	case []any:
		for _, inner := range v {
			below += w.visit(n.items, inner)
		}
	}
	w.steps += squared(n.errors+below) / comparedErrors
	if n.inherited == 0 {
		return 0 // no branch from above goes through here
	}
	return n.inherited + below
}

// compared is how many steps the comparisons of rules about a value take.
func (n *node) compared(value any) (steps int) {
	if len(n.rules) == 0 {
		return 0
	}
	var measured size
	measured.add(value)
	for _, r := range n.rules {
		steps = min(steps+int(min(r.steps(measured), most)), most)
	}
	return steps
}

// squared is the number of pairs of n errors.
func squared(n int) int {
	n = min(n, 1<<20)
	return n * n
}

// count is how many values a value has, with itself.
func count(value any) int {
	n := 1
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			n += count(inner)
		}
	case []any:
		for _, inner := range v {
			n += count(inner)
		}
	}
	return n
}

func (w *walk) define(n *node) {
	if n == nil || w.isOver() {
		return
	}
	if n.value != nil {
		// Each of its values may be wrong.
		w.steps += n.size + squared(count(n.value))/comparedErrors
		w.visit(n, n.value)
	}
	for _, below := range n.below() {
		w.define(below)
	}
}
